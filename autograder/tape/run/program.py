"""What can be run: source text, a function or a file, each time afresh, and which files are the user's own."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
import site
import sys
import sysconfig
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from autograder.errors import InputError

_PACKAGE = str(Path(__file__).resolve().parents[2])
_LIBRARIES = tuple(
    os.path.realpath(folder) + os.sep
    for folder in {
        _PACKAGE,
        *(sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
    }
)


class ProgramError(InputError):
    """The program could not be run; the message is one sentence that says what was seen and what to do.

    Attributes:
        recording: what was recorded until then, or None.
    """

    recording: object = None


def is_own_file(filename: str) -> bool:
    """Returns whether a code object's file was written by the user: not the standard library, not a package, not autograder."""
    # A notebook's cells have names of files that do not exist; their text is in linecache.
    if (filename.startswith("<") and not filename.startswith("<ipython-input")) or filename.startswith("<frozen"):
        return False
    if filename not in linecache.cache and not os.path.exists(filename):
        return False
    return not _real(filename).startswith(_LIBRARIES) and f"{os.sep}site-packages{os.sep}" not in filename


_real = functools.lru_cache(maxsize=1000)(os.path.realpath)  # asked for every call that a program makes


@dataclass(frozen=True)
class Program:
    """Something that can be run again and again, each time in a fresh world.

    Attributes:
        file: the name shown to the reader; `code_file` is the name its code objects carry.
        source: its whole text.
        call: runs it once and returns what it returned; it is given a function that says how many backwards ran so far.
        roots: what of our own process it reaches and may change; a program made of text alone reaches nothing.
        space: the names it binds, where they are not its own.
    """

    file: str
    source: str
    call: Callable[[Callable[[], int]], object] = field(compare=False)
    code_file: str = ""
    roots: tuple = ()
    space: dict | None = None

    def owns(self, filename: str) -> bool:
        """Returns whether a code object's file belongs to the user."""
        return filename == self.code_file or is_own_file(filename)

    def shown(self, filename: str) -> str:
        """Returns the name that a reader sees for a code object's file."""
        if filename == self.code_file:
            return self.file
        relative = os.path.relpath(filename)
        return filename if relative.startswith("..") else relative


def compiled(source: str, file: str) -> types.CodeType:
    """Returns the code object of `source`.

    Raises:
        ProgramError: it is not Python; the message gives the line.
    """
    try:
        code = compile(source, file, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise ProgramError(f"{file} is not Python: {error.msg} on line {error.lineno}. Correct that line.") from None
    except ValueError as error:
        raise ProgramError(f"{file} is not Python: {error}. Save it as plain text.") from None
    # inspect.getsource and tracebacks find the text of a program that stands in no file.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    return code


def from_source(
    source: str, file: str = "<program>", names: dict | None = None, function: str | None = None
) -> Program:
    """Returns the program that is this text, or one function of it; each run starts from an empty module and copies of `names`."""
    code = compiled(source, file)

    def call(backwards: Callable[[], int]) -> object:
        module = types.ModuleType("__main__" if function is None else "program")
        module.__dict__.update(fresh_names(names))
        with _importable(module, None):
            _import(code, module, file, guarded=function is not None)
            return _chosen(module, function, file, backwards)

    return Program(file, source, call, code.co_filename)


def fresh_names(names: dict | None) -> dict:
    """Returns the globals a run starts from; tensors and modules in `names` are copied, so that no run sees another's writes."""
    import copy

    memo: dict = {}
    space: dict = {}
    for name, value in (names or {}).items():
        try:
            space[name] = copy.deepcopy(value, memo)
        except Exception:
            space[name] = value  # a module, a lock, a tensor with history: shared, as Python itself would
    return space


def from_function(function: Callable, file: str = "<program>", names: dict | None = None) -> Program:
    """Returns the program that calls `function` with `names` as its keyword arguments (with none, it takes no argument)."""
    code = inspect.unwrap(function).__code__
    try:
        source = "".join(linecache.getlines(code.co_filename)) or inspect.getsource(function)
    except OSError:
        source = ""
    shown = os.path.basename(code.co_filename) if file == "<program>" and source else file

    def call(_backwards: Callable[[], int]) -> object:
        arguments = fresh_names(names)
        return function(**{name: arguments[name] for name in names or {}})

    return Program(shown, source, call, code.co_filename, (function,))


def from_file(path: str | os.PathLike, function: str | None = None) -> Program:
    """Returns the program that runs a script as `__main__`, or imports it and runs one function of it.

    Where no function is named and the script itself never runs a backward, its `run` is called, with what `make` returns.

    Raises:
        ProgramError: there is no such file, or it is not Python.
    """
    shown, absolute = os.fspath(path), os.path.abspath(path)
    try:
        source = Path(absolute).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise ProgramError(f"{shown} cannot be read: {reason}. Name a Python file.") from None
    compiled(source, shown)
    code = compiled(source, absolute)

    def call(backwards: Callable[[], int]) -> object:
        name = "__main__" if function is None else Path(absolute).stem
        module = types.ModuleType(name)
        module.__file__ = absolute
        with _importable(module, os.path.dirname(absolute)):
            _import(code, module, shown, guarded=function is not None)
            return _chosen(module, function, shown, backwards)

    return Program(shown, source, call, absolute)


class _importable:  # noqa: N801 - reads as a statement
    """The module can be found by its name, its neighbours can be imported, and afterwards all are forgotten."""

    def __init__(self, module: types.ModuleType, folder: str | None):
        self.module, self.folder = module, folder

    def __enter__(self):
        self.before = dict(sys.modules)
        sys.modules[self.module.__name__] = self.module
        if self.folder:
            sys.path.insert(0, self.folder)

    def __exit__(self, *_):
        if self.folder in sys.path:
            sys.path.remove(self.folder)
        sys.modules[self.module.__name__] = self.before.get(self.module.__name__, self.module)
        if self.module.__name__ not in self.before:
            del sys.modules[self.module.__name__]
        # A neighbour that kept its state would make the second run differ from the first.
        for name in set(sys.modules) - set(self.before):
            if is_own_file(getattr(sys.modules[name], "__file__", None) or "<none>"):
                del sys.modules[name]


def _import(code: types.CodeType, module: types.ModuleType, shown: str, *, guarded: bool) -> None:
    try:
        exec(code, module.__dict__)
    except ImportError as error:
        raise ProgramError(
            f"{shown} cannot be imported: {error}. Install what it imports, or correct the name."
        ) from error
    except Exception as error:
        if not guarded:
            raise
        raise ProgramError(f"{shown} cannot be imported: {type(error).__name__}: {error}.") from error


def _chosen(module: types.ModuleType, function: str | None, shown: str, backwards: Callable[[], int]) -> object:
    if function is None:
        run = module.__dict__.get("run")
        return _called(run, module, shown) if inspect.isfunction(run) and not backwards() else None
    chosen: object = module
    for part in function.split("."):
        chosen = getattr(chosen, part, None)
    if not callable(chosen):
        known = [name for name, value in vars(module).items() if inspect.isfunction(value)]
        raise ProgramError(f"{shown} has no function {function}; it has {', '.join(known) or 'none'}.")
    return _called(chosen, module, shown)


def from_cell(source: str, space: dict, file: str = "<cell>") -> Program:
    """Returns the program that runs this text in `space`, a notebook's own names, and gives the value of its last expression."""
    code = compiled(source, file)
    body = ast.parse(source)
    last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
    first = compile(body, file, "exec")

    def call(_backwards: Callable[[], int]) -> object:
        exec(first, space)
        return None if last is None else eval(compile(ast.Expression(last.value), file, "eval"), space)  # type: ignore[attr-defined]

    own = {name: value for name, value in space.items() if not name.startswith("_") and name not in _NOTEBOOK}
    return Program(file, source, call, code.co_filename, tuple(own.values()), space)


_NOTEBOOK = ("In", "Out", "exit", "quit", "open", "get_ipython")


def _called(function: Callable, module: types.ModuleType, shown: str) -> object:
    """Calls `function` with nothing, or with what the module's `make()` returns, spread as its parameters ask."""
    needed = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if not needed:
        return function()
    make = module.__dict__.get("make")
    if not callable(make):
        name = getattr(function, "__name__", "the function")
        raise ProgramError(
            f"{shown}::{name} needs {', '.join(needed)}; give them defaults, or a make() that returns them."
        )
    made = make()
    if isinstance(made, dict) and set(needed) <= set(made):
        return function(**{name: made[name] for name in needed})
    if isinstance(made, (tuple, list)) and len(made) == len(needed) and len(needed) > 1:
        return function(*made)
    return function(made)
