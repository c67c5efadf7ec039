"""Create a program with a changed source: from a file, a string, a live function or a notebook cell, without writing files.

A function object keeps its globals, closure, defaults and decorators; only its `__code__` is replaced. Python allows
this if both have the same free variables (docs.python.org, "Data model", special read-write attributes of functions).
"""

from __future__ import annotations

import ast
import gc
import io
import linecache
import os
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.machinery import SourceFileLoader
from typing import IO, Any
from unittest.mock import patch

from autograder.errors import message_of
from autograder.locale.messages import Message
from autograder.tape.internals.entry_points import wrapping
from autograder.tape.recording.verdict_types import Problem
from autograder.tape.run.graph_walk import node_of
from autograder.tape.run.programs.command_line import NO_ARGUMENTS, CommandLine, module_file
from autograder.tape.run.programs.notebook_text import NOTEBOOK_NAMES, changed_notebook, notebook_text
from autograder.tape.run.programs.program import Program, from_cell, from_file_text, from_function, from_source
from autograder.tape.run.programs.source_text import ProgramError, code_of, compiled, read_source
from autograder.tape.run.snapshot import Snapshot


def obstacle_in_cell(source: str, space: dict[Any, Any]) -> str | None:
    """Return the reason why no change of a cell can be run, as a sentence, or None if changes can be run.

    Backward frees the graph (docs.pytorch.org, `Tensor.backward`, `retain_graph`), so a trial would destroy a graph of
    another cell.
    """
    if "get_ipython()" in source:
        return Message(
            "search.magic|explain did not search for a fix: the cell contains a magic or a shell command, which every "
            "trial would run again."
        )
    for name in names_read(source):
        held = Snapshot((space[name],)).tensors if name in space else []
        if any(node_of(tensor) is not None for tensor in held):
            return Message(
                "search.graph_of_other_cell|explain did not search for a fix: {name} has a graph from another cell, "
                "and a trial would free it. Put both cells into one.", name=name,
            )  # fmt: skip
    return None


def names_read(source: str) -> list[str]:
    """Return the names that a source may read before it binds them, in order."""
    read: dict[str, None] = {}
    bound: set[str] = set()
    for statement in ast.parse(source).body:
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        loaded = [node.id for node in names if isinstance(node.ctx, ast.Load) or isinstance(statement, ast.AugAssign)]
        read |= dict.fromkeys(name for name in loaded if name not in bound)
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            bound |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return list(read)


_Key = tuple[str, int]


class LiveFunctions:
    """The function objects whose code was compiled from a source. `file` is the file name of their code objects."""

    def __init__(self, source: str, file: str):
        self.file = file
        self._outside = _outside(source)
        self._keys = {_position(code): key for key, code in _codes(source, file).items()}
        # `gc.get_objects` contains all functions: globals, methods, closures, and decorated functions.
        functions = (item for item in gc.get_objects() if type(item) is types.FunctionType)
        self.functions = [function for function in functions if self._key(function)]

    def _key(self, function: types.FunctionType) -> _Key | None:
        code = function.__code__
        return self._keys.get(_position(code)) if code.co_filename == self.file else None

    def __contains__(self, code: types.CodeType) -> bool:
        return code.co_filename == self.file and _position(code) in self._keys

    @contextmanager
    def running(self, source: str) -> Iterator[None]:
        """Replace the code of each function with that of the changed source, and restore it at the end of the block.

        Raises:
            ProgramError: if the change is not only in bodies of functions, or if a function would have other free
                variables.
        """
        if _outside(source) != self._outside:
            raise ProgramError.of("trial.global|The change is outside of the functions, and that code has already run.")
        changed, before = _codes(source, self.file), [(function, function.__code__) for function in self.functions]
        pairs = [(function, changed[key]) for function in self.functions if (key := self._key(function)) in changed]
        if any(function.__code__.co_freevars != code.co_freevars for function, code in pairs):
            raise ProgramError.of(
                "trial.other_closure|The change makes a function close over other names, which is not possible for a live function."
            )
        try:
            for function, code in pairs:
                function.__code__ = code
            yield
        finally:
            for function, code in before:
                function.__code__ = code


def _position(code: types.CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _codes(source: str, file: str) -> dict[_Key, types.CodeType]:
    """Return the code of each function in a source, by its qualified name and the number of earlier functions with that name."""
    codes: dict[_Key, types.CodeType] = {}
    waiting = [compile(source, file, "exec", dont_inherit=True)]
    for code in waiting:
        inside = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        waiting += inside
        for inner in inside:
            count = sum(name == inner.co_qualname for name, _ in codes)
            codes[inner.co_qualname, count] = inner
    return codes


def _outside(source: str) -> str:
    """Return the code of a source outside the bodies of its functions, without positions."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [ast.Pass()]
        elif isinstance(node, ast.Lambda):
            node.body = ast.Constant(None)
    return ast.dump(tree)


@contextmanager
def changed_imports(texts: dict[str, str]) -> Iterator[None]:
    """Load these sources, by path, instead of the files in the block.

    Replace a method of the loader for Python files instead of adding a finder to `sys.meta_path`, because
    `importlib.util.spec_from_file_location`, which programs use to load a file by path, calls no finder
    (docs.python.org, `importlib`).
    """
    changed = {os.path.realpath(path): text for path, text in texts.items()}

    def get_changed_code(get_code: Callable[..., Any], loader: SourceFileLoader, name: str) -> types.CodeType | None:
        text = changed.get(os.path.realpath(loader.path))
        return get_code(loader, name) if text is None else compiled(text, loader.path)

    # `runpy.run_path` reads files with it.
    def open_changed_code(open_code: Callable[..., IO[bytes]], path: str) -> IO[bytes]:
        text = changed.get(os.path.realpath(path))
        return open_code(path) if text is None else io.BytesIO(text.encode())

    with (
        patch.dict(linecache.cache),
        wrapping(SourceFileLoader, "get_code", get_changed_code),
        wrapping(io, "open_code", open_changed_code),
    ):
        yield


@dataclass(frozen=True)
class ProgramFactory:
    """A program, and a constructor for the same program with a changed source."""

    original: Program  # the unchanged program
    make: Callable[[str], Program] = field(compare=False)  # returns the program with a changed source
    obstacle: str | None = None  # reason why no changed source can be run, as a sentence; None if it can be run
    imported: Program | None = None  # the changed file as a program, if it is a file that the program imports
    notebook: str | None = None  # the notebook that contains the source, as JSON

    @property
    def source(self) -> str:
        """The unchanged source."""
        return (self.imported or self.original).source

    def written(self, text: str) -> str:
        """Return the content of the program's file with this source in its place."""
        return text if self.notebook is None else changed_notebook(self.notebook, text)

    @property
    def file(self) -> str:
        """The file name of the source in a verdict."""
        return (self.imported or self.original).file

    def until(self, problem: Problem) -> ProgramFactory:
        """Return the factory of programs that end before an exception of this type and message."""

        def cut(program: Program) -> Program:
            def call(backwards: Callable[[], int]) -> object:
                try:
                    return program.call(backwards)
                except Exception as raised:
                    if (type(raised).__name__, message_of(raised)) != (problem.type, problem.message):
                        raise
                    return None

            return replace(program, call=call)

        return replace(self, original=cut(self.original), make=lambda text: cut(self.make(text)))


def factory_of_text(
    source: str,
    file: str = "<program>",
    names: dict[Any, Any] | None = None,
    function: str | None = None,
    started: CommandLine | None = None,
) -> ProgramFactory:
    """Return the factory for a source that starts with copies of `names`, or for a function in it."""
    make = partial(from_source, file=file, names=names, function=function, started=started)
    return ProgramFactory(make(source), make)


def factory_of_file(
    path: str | os.PathLike[Any], part: str | None = None, started: CommandLine = NO_ARGUMENTS
) -> ProgramFactory:
    """Return the factory for a Python file or notebook, or for a part of it. The file is only read.

    `part` is a function of the script, or the last cell of the notebook to run (from the top), by its number or id.

    Raises:
        ProgramError: if the file cannot be read, is not Python, or has no such cell.
    """
    source, notebook = read_source(path), None
    if os.fspath(path).endswith(".ipynb"):
        notebook, source, part = source, notebook_text(source, os.fspath(path), part), None
    names = {} if notebook is None else NOTEBOOK_NAMES
    make = partial(from_file_text, path=path, function=part, started=started, names=names)
    return ProgramFactory(make(source), make, notebook=notebook)


def factory_of_module(name: str, started: CommandLine = NO_ARGUMENTS) -> ProgramFactory:
    """Return the factory for `python -m name`.

    Raises:
        ProgramError: if there is no such module, or it is not Python.
    """
    full_name, path = module_file(name)
    return factory_of_file(os.path.relpath(path), None, replace(started, module=full_name))


def factory_of_import(program: Program, file: str) -> ProgramFactory:
    """Return the factory for a program with a changed import. `file` is the name of the imported file in its verdict.

    Raises:
        ProgramError: if the file cannot be read.
    """
    imported = Program(file, read_source(file), program.call, os.path.abspath(file))
    places = [imported.code_file]
    if program.scratch:  # the program may also load the file by path from the copy of the working directory
        places.append(program.scratch.root + imported.code_file)

    def make(text: str) -> Program:
        def call(backwards: Callable[[], int]) -> object:
            with changed_imports(dict.fromkeys(places, text)):
                return program.call(backwards)

        return replace(program, call=call)

    return ProgramFactory(program, make, imported=imported)


def factory_of_cell(source: str, space: dict[Any, Any]) -> ProgramFactory:
    """Return the factory for a cell that runs in `space`, the namespace of a notebook, from its current values."""
    make = partial(from_cell, space=space)
    return ProgramFactory(make(source), make, obstacle_in_cell(source, space))


def factory_of_function(function: Callable[..., Any], names: dict[Any, Any] | None = None) -> ProgramFactory:
    """Return the factory for a live function, called with copies of `names` as keyword arguments.

    A changed source is that of the whole file or cell that defines the function; its functions run with their new code
    (`LiveFunctions`).

    Raises:
        ProgramError: if the function has no Python code.
    """
    original, code = from_function(function, names=names), code_of(function)
    live = LiveFunctions(original.source, code.co_filename)
    if code not in live:
        text = "search.no_source|explain did not search for a fix: the source text of {name} cannot be read."
        if original.source:
            text = "search.old_source|explain did not search for a fix: the source text of {name} has changed since it was defined."
        return ProgramFactory(original, lambda _: original, Message(text, name=code.co_name))

    def make(text: str) -> Program:
        compiled(text, code.co_filename)

        def call(backwards: Callable[[], int]) -> object:
            with live.running(text):
                return original.call(backwards)

        return replace(original, source=text, call=call)

    return ProgramFactory(original, make)
