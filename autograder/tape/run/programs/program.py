"""Programs that can be run repeatedly from the same start: source text, a function, a file or a notebook cell, each in a new module."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import linecache
import os
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from traceback import walk_stack
from types import MappingProxyType
from typing import Any

from autograder.errors import message_of
from autograder.locale.messages import Message
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.child_processes import join_threads
from autograder.tape.run.programs.command_line import NO_ARGUMENTS, CommandLine, packaged_name, place_in_package
from autograder.tape.run.programs.scratch_folder import ScratchFolder
from autograder.tape.run.programs.source_text import ProgramError, code_of, compiled, is_own_file

_NEVER_HIDDEN = {"autograder", "torch"}  # already imported, even if files of the program have these names


@contextmanager
def importable(module: types.ModuleType, folders: list[str]) -> Iterator[None]:
    """Make the module and its neighbors importable in the block. At its end they are removed from `sys.modules`."""
    before = dict(sys.modules)
    # Python would find the program's own `secrets.py` first, but this process has already imported the standard library's.
    hidden = {name: sys.modules.pop(name) for name in _shadowed(folders)}
    sys.modules[module.__name__] = module
    sys.path[:0] = folders
    try:
        yield
    finally:
        for folder in folders:
            if folder in sys.path:
                sys.path.remove(folder)
        # The finder of a relative entry keeps the working directory of this run.
        for entry in [entry for entry in sys.path_importer_cache if not os.path.isabs(entry)]:
            del sys.path_importer_cache[entry]
        sys.modules[module.__name__] = before.get(module.__name__, module)
        if module.__name__ not in before:
            del sys.modules[module.__name__]
        # A neighboring module that keeps its state would make the second run differ from the first.
        # The places are read before the first removal, because a namespace package finds its path by its parent.
        places = {name: _place(sys.modules[name]) for name in set(sys.modules) - set(before)}
        for name in filter(lambda name: is_own_file(places[name]), places):
            del sys.modules[name]
        sys.modules.update(hidden)


def _place(module: types.ModuleType) -> str:
    """Return the file of a module, or the first directory of a namespace package."""
    # `__file__` names the copy of a file, which the program may have removed.
    origin = getattr(getattr(module, "__spec__", None), "origin", None) or getattr(module, "__file__", None)
    return origin or next(iter(getattr(module, "__path__", ())), "<none>")


def _shadowed(folders: Iterable[str]) -> list[str]:
    """Return the imported modules that a program started in these directories would import from its own files instead."""
    by_top = {top: folder for folder in folders for top in _importable_names(folder)}
    tops = {name.partition(".")[0] for name in sys.modules}
    hidden = {top for top in by_top.keys() & tops - _NEVER_HIDDEN if _comes_later(sys.modules.get(top), by_top[top])}
    return [name for name in sys.modules if name.partition(".")[0] in hidden]


def _importable_names(folder: str) -> Iterator[str]:
    yield from (file.stem for file in Path(folder).glob("*.py"))
    yield from (file.parent.name for file in Path(folder).glob("*/__init__.py"))


def _comes_later(module: types.ModuleType | None, folder: str) -> bool:
    """Return whether Python would search `folder` before it finds this module, and the module is not in `folder`."""
    # Frozen and built-in modules are imported before any file is searched (sys.meta_path).
    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    file = getattr(module, "__file__", None)
    is_in_folder = os.path.realpath(str(file)).startswith(os.path.join(os.path.realpath(folder), ""))
    return bool(file and origin not in ("frozen", "built-in")) and not is_in_folder


def run_module(
    code: types.CodeType, module: types.ModuleType, function: str | None, shown: str, backwards: Callable[[], int]
) -> object:
    """Run a module's code, and return the result of its function.

    Raise a ProgramError for an ImportError before the first backward and, if a function is given, for any other error
    of the module's code.
    """
    before = threading.enumerate()
    try:
        exec(code, module.__dict__)
        if function is None:
            join_threads(before, lambda file: file == code.co_filename or is_own_file(file))
    except ImportError as error:
        if backwards():
            raise
        advice = Message("import.install|Install the missing package, or correct the name.")
        if "relative import" in message_of(error):
            advice = Message(
                "import.module|Start it as a module of its package: `autograder explain -m PACKAGE.MODULE`."
            )
        text = "import.no_package|{shown} cannot be imported: {reason}. {advice}"
        raise ProgramError.of(text, shown=shown, reason=message_of(error), advice=advice) from error
    except Exception as error:
        if function is None:
            raise
        text = "import.failed|{shown} cannot be imported: {error}: {reason}."
        raise ProgramError.of(text, shown=shown, error=type(error).__name__, reason=message_of(error)) from error
    return run_chosen(module, function, shown, backwards)


def run_chosen(module: types.ModuleType, function: str | None, shown: str, backwards: Callable[[], int]) -> object:
    """Return the result of the module's function. Without a name, return the result of `run` if no backward has run yet."""
    if function is None:
        run = module.__dict__.get("run")
        return _called(run, module, shown) if inspect.isfunction(run) and not backwards() else None
    chosen: object = module
    for part in function.split("."):
        chosen = getattr(chosen, part, None)
    if inspect.isclass(chosen):
        raise ProgramError.of(
            "program.is_a_class|{shown}::{function} is a class. Name a function, or a static method as {function}.METHOD.",
            shown=shown, function=function,
        )  # fmt: skip
    if not callable(chosen):
        known = [name for name, value in vars(module).items() if inspect.isfunction(value)]
        text = "program.no_function|{shown} has no function {function}; it has {names}."
        raise ProgramError.of(text, shown=shown, function=function, names=", ".join(known) or "none")
    return _called(chosen, module, shown)


def _called(function: Callable[..., Any], module: types.ModuleType, shown: str) -> object:
    """Call `function` without arguments, or with the return value of the module's `make()`, unpacked to match its parameters."""
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = (each for each in inspect.signature(function).parameters.values() if each.kind not in optional)
    needed = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    if not needed:
        return function()
    make = module.__dict__.get("make")
    if not callable(make):
        name = getattr(function, "__name__", "the function")
        text = "program.needs_values|{shown}::{name} needs {names}; give them defaults, or a make() that returns them."
        raise ProgramError.of(text, shown=shown, name=name, names=", ".join(needed))
    made = make()
    if isinstance(made, dict) and set(needed) <= set(made):
        return function(**{name: made[name] for name in needed})
    if isinstance(made, (tuple, list)) and len(made) == len(needed) and len(needed) > 1:
        return function(*made)
    return function(made)


@dataclass(frozen=True)
class Program:
    """A program that can be run repeatedly, each time from the same start."""

    file: str  # name in reports
    source: str  # its whole source
    # runs it once and returns its result; receives a function that returns the number of backward calls so far
    call: Callable[[Callable[[], int]], object] = field(compare=False)
    code_file: str = ""  # file name of its code objects
    # objects of this process that it can reach and may change; () for a program that is only text
    roots: tuple[Any, ...] = ()
    space: dict[Any, Any] | None = None  # the namespace that it binds names in, if that is not its own
    # whether each run starts from a fixed seed; a notebook cell starts from the current state of the generators
    seeded: bool = True
    # copy of the working directory in which it runs, if there is one
    scratch: ScratchFolder | None = field(default=None, compare=False)
    # the working directory, to which file names in reports are relative
    folder: str = field(default_factory=os.getcwd, compare=False)

    def owns(self, filename: str) -> bool:
        """Return whether the file of a code object belongs to the user."""
        return filename == self.code_file or is_own_file(filename)

    def shown(self, filename: str) -> str:
        """Return the name in reports for the file of a code object."""
        if filename == self.code_file:
            return self.file
        if self.scratch:
            filename = filename.removeprefix(self.scratch.root)
        return _relative(filename, self.folder)

    def place(self, filename: str, line: int) -> Place:
        """Return a line of the user with the file name of the report."""
        return Place(self.shown(filename), line, linecache.getline(filename, line).strip())

    def frames(self) -> Iterator[types.FrameType]:
        """Yield the user's frames that are running in this thread, innermost first."""
        return (frame for frame, _ in walk_stack(sys._getframe(1)) if self.owns(frame.f_code.co_filename))

    def here(self) -> Place:
        """Return the user's line that is running in this thread, or line 0 if there is none."""
        return next((self.place(frame.f_code.co_filename, frame.f_lineno) for frame in self.frames()), Place("", 0, ""))


@functools.lru_cache(maxsize=1024)
def _relative(filename: str, folder: str) -> str:
    """Return a file's name from a folder if it is below it, else its full name. A run asks for a few files very often."""
    relative = os.path.relpath(filename, folder)
    return os.path.normpath(filename) if relative.startswith("..") else relative


def from_source(
    source: str,
    file: str = "<program>",
    names: dict[Any, Any] | None = None,
    function: str | None = None,
    started: CommandLine | None = None,
) -> Program:
    """Return the program of a text, or of a function in it. Each run starts with an empty module and copies of `names`.

    With `started`, it finds its arguments and the modules of the working directory as with `python -c`.
    """
    code = compiled(source, file)
    folders = [os.getcwd()] if started else []

    def call(backwards: Callable[[], int]) -> object:
        module = types.ModuleType("__main__" if function is None else "program")
        module.__dict__.update(copied_names(names))
        with importable(module, folders), started.given_to("-c", folders) if started else nullcontext():
            return run_module(code, module, function, file, backwards)

    return Program(file, source, call, code.co_filename, scratch=started.scratch if started else None)


def copied_names(names: dict[Any, Any] | None) -> dict[Any, Any]:
    """Return the initial globals of a run, with copies of tensors and modules, so that runs do not affect each other."""
    memo: dict[Any, Any] = {}
    space: dict[Any, Any] = {}
    for name, value in (names or {}).items():
        try:
            space[name] = copy.deepcopy(value, memo)
        except Exception:
            space[name] = value  # a Python module, a lock, or a tensor with a graph cannot be copied and is shared
    return space


def from_function(
    function: Callable[..., Any], file: str = "<program>", names: dict[Any, Any] | None = None
) -> Program:
    """Return the program that calls `function` with `names` as keyword arguments."""
    code = code_of(function)
    source = "".join(linecache.getlines(code.co_filename))
    shown = os.path.basename(code.co_filename) if file == "<program>" and source else file

    def call(_backwards: Callable[[], int]) -> object:
        return function(**copied_names(names))

    return Program(shown, source, call, code.co_filename, (function,))


def from_file_text(
    source: str,
    path: str | os.PathLike[Any],
    function: str | None = None,
    started: CommandLine = NO_ARGUMENTS,
    names: Mapping[str, object] = MappingProxyType({}),
) -> Program:
    """Return the program that runs a script with the content `source` as `__main__`, or imports it and runs a function.

    If `function` is None and the script does not run a backward, its `run` is called with the return value of `make`.
    The globals of the script start with `names`.

    Raises:
        ProgramError: if the source is not valid Python.
    """
    shown, absolute = os.fspath(path), os.path.abspath(path)
    compiled(source, shown)
    code = compiled(source, absolute)
    name, folders = packaged_name(absolute)
    if started.module:
        name, folders = started.module, [os.getcwd()]
    elif function is None:
        name, folders = "__main__", [os.path.dirname(absolute)]

    def call(backwards: Callable[[], int]) -> object:
        module = types.ModuleType("__main__" if function is None else name)
        module.__dict__.update(names)
        place_in_package(module, name, absolute)
        with importable(module, folders), started.given_to(absolute if started.module else shown, folders):
            module.__dict__["__file__"] = started.path_of(absolute)
            return run_module(code, module, function, shown, backwards)

    return Program(shown, source, call, absolute, scratch=started.scratch)


def from_cell(source: str, space: dict[Any, Any]) -> Program:
    """Return the program that runs a text in `space`, the namespace of a notebook, and returns the value of its last expression."""
    file = "<cell>"
    code = compiled(source, file)
    body = ast.parse(source)
    last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
    first = compile(body, file, "exec")

    def call(_backwards: Callable[[], int]) -> object:
        exec(first, space)
        return None if last is None else eval(compile(ast.Expression(last.value), file, "eval"), space)  # type: ignore[attr-defined]

    names = {name: value for name, value in space.items() if not name.startswith("_") and name not in _NOTEBOOK}
    return Program(file, source, call, code.co_filename, tuple(names.values()), space, seeded=False)


_NOTEBOOK = ("In", "Out", "exit", "quit", "open", "get_ipython")
