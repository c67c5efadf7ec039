"""The same program with another text: of a file, a text, a live function or a notebook's cell. Nothing is written anywhere."""

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
    """A project file that a program imports: its name in a verdict, its path and its text."""

    file: str
    path: str
    text: str


@dataclass(frozen=True)
class ProgramFactory:
    """A program, and what makes the same program of a changed text.

    Attributes:
        original: the program as it is.
        make: returns the program that a changed text would be.
        obstacle: why no changed text can be run, as a sentence; None where one can.
        imported: the file whose text is changed, where it is one that the program imports.
        notebook: the notebook that the text was taken from, as JSON.
    """

    original: Program
    make: Callable[[str], Program] = field(compare=False)
    obstacle: str | None = None
    imported: ImportedFile | None = None
    notebook: str | None = None

    @property
    def source(self) -> str:
        """The text as it is."""
        return self.imported.text if self.imported else self.original.source

    def written(self, text: str) -> str:
        """Return the file's text at the place where the program has this text."""
        return text if self.notebook is None else changed_notebook(self.notebook, text)

    @property
    def file(self) -> str:
        """The name that lines of the text have in a verdict."""
        return self.imported.file if self.imported else self.original.file

    @property
    def path(self) -> str:
        """Where the text lies, if it lies in a file."""
        return self.imported.path if self.imported else self.original.code_file


def factory_of_text(
    source: str,
    file: str = "<program>",
    names: dict | None = None,
    function: str | None = None,
    started: CommandLine | None = None,
) -> ProgramFactory:
    """Returns the factory for a text that starts from copies of `names`; of a function in it, where one is named."""
    make = partial(from_source, file=file, names=names, function=function, started=started)
    return ProgramFactory(make(source), make)


def factory_of_file(
    path: str | os.PathLike, part: str | None = None, started: CommandLine = NO_ARGUMENTS
) -> ProgramFactory:
    """Returns the factory for a Python file or notebook, which is only read, or for a part of it.

    Args:
        path: a script, or a notebook, whose cells run from the top.
        part: one function of the script, or the notebook's last cell to run, by its number or id.
        started: the arguments that it is given, and how it is started.

    Raises:
        ProgramError: it cannot be read, it is not Python, or it has no such cell.
    """
    source, notebook = read_source(path), None
    if os.fspath(path).endswith(".ipynb"):
        notebook, source, part = source, notebook_text(source, os.fspath(path), part), None
    names = {} if notebook is None else NOTEBOOK_NAMES
    make = partial(from_file_text, path=path, function=part, started=started, names=names)
    return ProgramFactory(make(source), make, notebook=notebook)


def factory_of_module(name: str, started: CommandLine = NO_ARGUMENTS) -> ProgramFactory:
    """Returns the factory for what `python -m name` runs.

    Raises:
        ProgramError: there is no such module, or it is not Python.
    """
    full_name, path = module_file(name)
    return factory_of_file(os.path.relpath(path), None, replace(started, module=full_name))


def factory_of_import(program: Program, file: str) -> ProgramFactory:
    """Returns the factory for a program of which a file that it imports is changed; `file` is the name in its verdict.

    Raises:
        ProgramError: the file cannot be read.
    """
    imported = ImportedFile(file, os.path.abspath(file), read_source(file))
    places = [imported.path]
    if program.scratch:  # what is loaded by a path of the working folder lies in its copy
        places.append(program.scratch.root + imported.path)

    def make(text: str) -> Program:
        def call(backwards: Callable[[], int]) -> object:
            with changed_imports(dict.fromkeys(places, text)):
                return program.call(backwards)

        return replace(program, call=call)

    return ProgramFactory(program, make, imported=imported)


def factory_of_cell(source: str, space: dict) -> ProgramFactory:
    """Returns the factory for a cell that runs in `space`, a notebook's own names, and starts from what they hold now."""
    make = partial(from_cell, space=space)
    return ProgramFactory(make(source), make, obstacle_in_cell(source, space))


def factory_of_function(function: Callable, names: dict | None = None) -> ProgramFactory:
    """Returns the factory for a live function, called with copies of `names` as keyword arguments.

    A changed text is that of the whole file or cell that defines it; its functions run with their new code (`LiveFunctions`).

    Raises:
        ProgramError: it has no code of its own.
    """
    original, code = from_function(function, names=names), code_of(function)
    what = f"No repair was searched for: the source text of {code.co_name} "
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
