"""Preprocessors for releases and grading with nbgrader: they remove the author's cells and keep faulty programs."""

from __future__ import annotations

from typing import Any

from nbformat import NotebookNode
from nbgrader.converters import GenerateAssignment
from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor
from traitlets.config import Config
from traitlets.config.loader import LazyConfigValue
from traitlets.utils.importstring import import_item

from autograder.course.author_cells import is_authors


class RemoveAuthorCells(NbGraderPreprocessor):
    """Removes the author's answers next to each exercise, which are not for students."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Return the notebook without the author's cells."""
        nb.cells = [cell for cell in nb.cells if not is_authors(cell.metadata)]
        return nb, resources


class KeepStubs(ClearSolutions):
    """Clears solutions as nbgrader does, but keeps a cell tagged "stub": the program that the student fixes.

    nbgrader 0.9.6 replaces a solution cell without BEGIN SOLUTION marks with `raise NotImplementedError()`, but an
    exercise needs the faulty program there.
    """

    def preprocess_cell(self, cell: NotebookNode, resources: Any, cell_index: int) -> tuple[NotebookNode, Any]:
        """Return the cell as it is released."""
        if "stub" in cell.metadata.get("tags", []):
            return cell, resources
        return super().preprocess_cell(cell, resources, cell_index)


def configure(config: Config) -> None:
    """Make an nbgrader configuration remove the author's cells and keep stubs.

    The other preprocessors of the configuration are kept; a second call has no effect.
    """
    steps = [step for step in _preprocessors(config) if step is not RemoveAuthorCells]
    config.GenerateAssignment.preprocessors = [
        RemoveAuthorCells,
        *(KeepStubs if step is ClearSolutions else step for step in steps),
    ]


def _preprocessors(config: Config) -> list[Any]:
    """Return the preprocessors of `GenerateAssignment` that a configuration names, each by its class."""
    stock = GenerateAssignment.preprocessors.default_args[0]
    steps = config.GenerateAssignment.get("preprocessors", stock)
    if isinstance(steps, LazyConfigValue):  # `c.….preprocessors.append(…)`
        steps = steps.get_value(list(stock))
    return [import_item(step) if isinstance(step, str) else step for step in steps]
