"""How nbgrader releases our sources and grades with them: the author's cells are removed, faulty programs are kept."""

from __future__ import annotations

from typing import Any

from nbconvert.preprocessors import TagRemovePreprocessor
from nbformat import NotebookNode
from nbgrader.converters import GenerateAssignment
from nbgrader.preprocessors import ClearSolutions
from traitlets.config import Config

from autograder.course.author_cells import AUTHOR_TAGS


class KeepStubs(ClearSolutions):
    """Clears solutions as nbgrader does, but keeps a cell tagged "stub": the program that the learner repairs.

    nbgrader 0.9.6 replaces a solution cell without BEGIN SOLUTION marks by `raise NotImplementedError()`; a repair
    exercise needs the faulty program there.
    """

    def preprocess_cell(self, cell: NotebookNode, resources: Any, cell_index: int) -> tuple[NotebookNode, Any]:
        """Returns the cell as it is released."""
        if "stub" in cell.metadata.get("tags", []):
            return cell, resources
        return super().preprocess_cell(cell, resources, cell_index)


def configure(config: Config) -> None:
    """Adds to an nbgrader configuration what the course's sources need: author's cells are removed, stubs are kept."""
    stock = GenerateAssignment.preprocessors.default_args[0]
    config.GenerateAssignment.preprocessors = [
        TagRemovePreprocessor,
        *(KeepStubs if preprocessor is ClearSolutions else preprocessor for preprocessor in stock),
    ]
    config.TagRemovePreprocessor.enabled = True
    config.TagRemovePreprocessor.remove_cell_tags = set(AUTHOR_TAGS)
