"""What can be run: source text, a function, a file or a notebook's cell, each time from the same start."""

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
    """Something that can be run again and again, each time from the same start.

    Attributes:
        file: the name shown to the reader; `code_file` is the name its code objects carry.
        source: its whole text.
        call: runs it once and returns what it returned; it is given a function that says how many backwards ran so far.
        roots: the objects of this process that it can reach and may change; () for a program that is only text.
        space: the names it binds, where they are not its own.
        seeded: whether each run starts from our seed; a notebook's cell starts from where the generators are.
        scratch: the copy of the working folder that it runs in, if there is one.
        folder: the working folder, from which files are named.
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
        """Returns whether a code object's file belongs to the user."""
        return filename == self.code_file or is_own_file(filename)

    def shown(self, filename: str) -> str:
        """Returns the name that a reader sees for a code object's file."""
        if filename == self.code_file:
            return self.file
        if self.scratch:
            filename = filename.removeprefix(self.scratch.root)
        relative = os.path.relpath(filename, self.folder)
        return filename if relative.startswith("..") else relative


def from_source(
    source: str,
    file: str = "<program>",
    names: dict | None = None,
    function: str | None = None,
    started: CommandLine | None = None,
) -> Program:
    """Returns the program that is this text, or one function of it; each run starts from an empty module and copies of `names`.

    With `started`, it finds its arguments and the modules of the working folder as a text given to `python -c` would.
    """
    code = compiled(source, file)
    folders = [os.getcwd()] if started else []

    def call(backwards: Callable[[], int]) -> object:
        module = types.ModuleType("__main__" if function is None else "program")
        module.__dict__.update(fresh_names(names))
        with importable(module, folders), started.given_to("-c") if started else nullcontext():
            run_module(code, module, file, guarded=function is not None)
            return run_chosen(module, function, file, backwards)

    return Program(file, source, call, code.co_filename, scratch=started.scratch if started else None)


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
    code = code_of(function)
    source = "".join(linecache.getlines(code.co_filename))
    shown = os.path.basename(code.co_filename) if file == "<program>" and source else file

    def call(_backwards: Callable[[], int]) -> object:
        arguments = fresh_names(names)
        return function(**{name: arguments[name] for name in names or {}})

    return Program(shown, source, call, code.co_filename, (function,))


def from_file(path: str | os.PathLike, function: str | None = None, started: CommandLine = NO_ARGUMENTS) -> Program:
    """Returns the program that runs a script as `__main__`, or imports it and runs one function of it.

    Where no function is named and the script itself never runs a backward, its `run` is called, with what `make` returns.

    Raises:
        ProgramError: there is no such file, or it is not Python.
    """
    return from_file_text(read_source(path), path, function, started)


def from_file_text(
    source: str,
    path: str | os.PathLike,
    function: str | None = None,
    started: CommandLine = NO_ARGUMENTS,
    names: Mapping[str, object] = MappingProxyType({}),
) -> Program:
    """Returns the program that a file would be if it held `source`, whose globals start with `names`.

    Raises:
        ProgramError: the text is not Python.
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
        module.__dict__.update(names, __file__=absolute)
        place_in_package(module, name, absolute)
        with importable(module, folders), started.given_to(absolute if started.module else shown):
            run_module(code, module, shown, guarded=function is not None)
            return run_chosen(module, function, shown, backwards)

    return Program(shown, source, call, absolute, scratch=started.scratch)


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
    return Program(file, source, call, code.co_filename, tuple(own.values()), space, seeded=False)


_NOTEBOOK = ("In", "Out", "exit", "quit", "open", "get_ipython")
