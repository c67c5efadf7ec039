"""Create a program with a changed source: from a file, a string, a live function or a notebook cell, without writing files."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from autograder.tape.repair.trial.cell_obstacles import obstacle_in_cell
from autograder.tape.repair.trial.live_functions import LiveFunctions
from autograder.tape.run.programs.cell_text import NOTEBOOK_NAMES
from autograder.tape.run.programs.changed_imports import changed_imports
from autograder.tape.run.programs.command_line import NO_ARGUMENTS, CommandLine, module_file
from autograder.tape.run.programs.notebook_change import changed_notebook
from autograder.tape.run.programs.notebook_text import notebook_text
from autograder.tape.run.programs.program import Program, from_cell, from_file_text, from_function, from_source
from autograder.tape.run.programs.source_text import code_of, compiled, read_source


@dataclass(frozen=True)
class ImportedFile:
    """A project file that a program imports: its name in a verdict, its path and its source."""

    file: str
    path: str
    text: str


@dataclass(frozen=True)
class ProgramFactory:
    """A program, and a constructor for the same program with a changed source.

    Attributes:
        original: the unchanged program.
        make: returns the program with a changed source.
        obstacle: reason why no changed source can be run, as a sentence; None if it can be run.
        imported: the changed file, if it is a file that the program imports.
        notebook: the notebook that contains the source, as JSON.
    """

    original: Program
    make: Callable[[str], Program] = field(compare=False)
    obstacle: str | None = None
    imported: ImportedFile | None = None
    notebook: str | None = None

    @property
    def source(self) -> str:
        """The unchanged source."""
        return self.imported.text if self.imported else self.original.source

    def written(self, text: str) -> str:
        """Return the content of the program's file with this source in its place."""
        return text if self.notebook is None else changed_notebook(self.notebook, text)

    @property
    def file(self) -> str:
        """The file name of the source in a verdict."""
        return self.imported.file if self.imported else self.original.file

    @property
    def path(self) -> str:
        """The path of the source, if it is a file."""
        return self.imported.path if self.imported else self.original.code_file


def factory_of_text(
    source: str,
    file: str = "<program>",
    names: dict | None = None,
    function: str | None = None,
    started: CommandLine | None = None,
) -> ProgramFactory:
    """Return the factory for a source that starts with copies of `names`, or for a function in it."""
    make = partial(from_source, file=file, names=names, function=function, started=started)
    return ProgramFactory(make(source), make)


def factory_of_file(
    path: str | os.PathLike, part: str | None = None, started: CommandLine = NO_ARGUMENTS
) -> ProgramFactory:
    """Return the factory for a Python file or notebook, or for a part of it. The file is only read.

    Args:
        path: a script, or a notebook, whose cells run from the top.
        part: a function of the script, or the last cell of the notebook to run, by its number or id.
        started: the arguments of the script, and how it is started.

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
    imported = ImportedFile(file, os.path.abspath(file), read_source(file))
    places = [imported.path]
    if program.scratch:  # the program may also load the file by path from the copy of the working directory
        places.append(program.scratch.root + imported.path)

    def make(text: str) -> Program:
        def call(backwards: Callable[[], int]) -> object:
            with changed_imports(dict.fromkeys(places, text)):
                return program.call(backwards)

        return replace(program, call=call)

    return ProgramFactory(program, make, imported=imported)


def factory_of_cell(source: str, space: dict) -> ProgramFactory:
    """Return the factory for a cell that runs in `space`, the namespace of a notebook, from its current values."""
    make = partial(from_cell, space=space)
    return ProgramFactory(make(source), make, obstacle_in_cell(source, space))


def factory_of_function(function: Callable, names: dict | None = None) -> ProgramFactory:
    """Return the factory for a live function, called with copies of `names` as keyword arguments.

    A changed source is that of the whole file or cell that defines the function; its functions run with their new code
    (`LiveFunctions`).

    Raises:
        ProgramError: if the function has no Python code.
    """
    original, code = from_function(function, names=names), code_of(function)
    what = f"explain did not search for a fix: the source text of {code.co_name} "
    if not original.source:
        return ProgramFactory(original, lambda _: original, f"{what}cannot be read.")
    live = LiveFunctions(original.source, code.co_filename)
    if code not in live:
        return ProgramFactory(original, lambda _: original, f"{what}has changed since it was defined.")

    def make(text: str) -> Program:
        compiled(text, code.co_filename)

        def call(backwards: Callable[[], int]) -> object:
            with live.running(text):
                return original.call(backwards)

        return replace(original, source=text, call=call)

    return ProgramFactory(original, make)
