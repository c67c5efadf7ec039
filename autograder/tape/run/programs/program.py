"""Programs that can be run repeatedly from the same start: source text, a function, a file or a notebook cell."""

from __future__ import annotations

import ast
import linecache
import os
import types
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType

from autograder.tape.run.programs.command_line import NO_ARGUMENTS, CommandLine, packaged_name, place_in_package
from autograder.tape.run.programs.fresh_module import importable, run_chosen, run_module
from autograder.tape.run.programs.scratch_folder import ScratchFolder
from autograder.tape.run.programs.source_text import code_of, compiled, is_own_file, read_source


@dataclass(frozen=True)
class Program:
    """A program that can be run repeatedly, each time from the same start.

    Attributes:
        file: name in reports.
        code_file: file name of its code objects.
        source: its whole source.
        call: runs it once and returns its result; receives a function that returns the number of backward calls so far.
        roots: objects of this process that it can reach and may change; () for a program that is only text.
        space: the namespace that it binds names in, if that is not its own.
        seeded: whether each run starts from a fixed seed; a notebook cell starts from the current state of the
            generators.
        scratch: copy of the working directory in which it runs, if there is one.
        folder: the working directory, to which file names in reports are relative.
    """

    file: str
    source: str
    call: Callable[[Callable[[], int]], object] = field(compare=False)
    code_file: str = ""
    roots: tuple = ()
    space: dict | None = None
    seeded: bool = True
    scratch: ScratchFolder | None = field(default=None, compare=False)
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
        relative = os.path.relpath(filename, self.folder)
        return os.path.normpath(filename) if relative.startswith("..") else relative


def from_source(
    source: str,
    file: str = "<program>",
    names: dict | None = None,
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
        module.__dict__.update(fresh_names(names))
        with importable(module, folders), started.given_to("-c", folders) if started else nullcontext():
            run_module(code, module, file, guarded=function is not None)
            return run_chosen(module, function, file, backwards)

    return Program(file, source, call, code.co_filename, scratch=started.scratch if started else None)


def fresh_names(names: dict | None) -> dict:
    """Return the initial globals of a run.

    Tensors and modules in `names` are copied, so that runs do not affect each other.
    """
    import copy

    memo: dict = {}
    space: dict = {}
    for name, value in (names or {}).items():
        try:
            space[name] = copy.deepcopy(value, memo)
        except Exception:
            space[name] = value  # a Python module, a lock, or a tensor with a graph cannot be copied and is shared
    return space


def from_function(function: Callable, file: str = "<program>", names: dict | None = None) -> Program:
    """Return the program that calls `function` with `names` as keyword arguments."""
    code = code_of(function)
    source = "".join(linecache.getlines(code.co_filename))
    shown = os.path.basename(code.co_filename) if file == "<program>" and source else file

    def call(_backwards: Callable[[], int]) -> object:
        arguments = fresh_names(names)
        return function(**{name: arguments[name] for name in names or {}})

    return Program(shown, source, call, code.co_filename, (function,))


def from_file(path: str | os.PathLike, function: str | None = None, started: CommandLine = NO_ARGUMENTS) -> Program:
    """Return the program that runs a script as `__main__`, or imports it and runs one of its functions.

    If `function` is None and the script does not run a backward, its `run` is called with the return value of `make`.

    Raises:
        ProgramError: if the file does not exist or is not Python.
    """
    return from_file_text(read_source(path), path, function, started)


def from_file_text(
    source: str,
    path: str | os.PathLike,
    function: str | None = None,
    started: CommandLine = NO_ARGUMENTS,
    names: Mapping[str, object] = MappingProxyType({}),
) -> Program:
    """Return the program of a file with the content `source`, whose globals start with `names`.

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
            run_module(code, module, shown, guarded=function is not None)
            return run_chosen(module, function, shown, backwards)

    return Program(shown, source, call, absolute, scratch=started.scratch)


def from_cell(source: str, space: dict, file: str = "<cell>") -> Program:
    """Return the program that runs a text in `space`, the namespace of a notebook, and returns the value of its last expression."""
    code = compiled(source, file)
    body = ast.parse(source)
    last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
    first = compile(body, file, "exec")

    def call(_backwards: Callable[[], int]) -> object:
        exec(first, space)
        return None if last is None else eval(compile(ast.Expression(last.value), file, "eval"), space)  # type: ignore[attr-defined]

    own = {name: value for name, value in space.items() if not name.startswith("_") and name not in _NOTEBOOK}
    return Program(file, source, call, code.co_filename, tuple(own.values()), space, seeded=False)


_NOTEBOOK = ("In", "Out", "exit", "quit", "open", "get_ipython")
