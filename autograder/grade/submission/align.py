"""Aligns a submission's cells with the source's, and restores the teacher's cells whatever was done to them."""

from __future__ import annotations

import copy
from typing import NamedTuple

from nbformat import NotebookNode

from autograder.grade.submission.submitted.untrusted_notebook import new_cell
from autograder.grade.submission.teacher.source import AssignmentSource, SourceCell

PUT_BACK = "This cell was missing from the submission; it was put back."


class AlignedCell(NamedTuple):
    """One cell to run.

    Attributes:
        cell: as it will be in the graded notebook.
        source: the source's cell with the same id; None for a cell that the student added.
        put_back: whether it was missing from the submission.
    """

    cell: NotebookNode
    source: SourceCell | None
    put_back: bool = False


def align(source: AssignmentSource, cells: list[NotebookNode]) -> list[AlignedCell]:
    """Returns the submission's cells in their order, with everything that decides points taken from the source.

    Tests and locked cells get the source's text, answers keep the student's; types, points and ids are the source's. If a
    cell occurs twice, the last one counts, as in nbgrader (0.9.6, `DeduplicateIds`). A missing graded cell is inserted before
    the next cell of the source that is present, so that the student's own cells before it have run.
    """
    last = {_id(cell): index for index, cell in enumerate(cells)}
    aligned = []
    for index, cell in enumerate(cells):
        own = source.by_id.get(_id(cell)) if last[_id(cell)] == index else None
        aligned.append(AlignedCell(_restored(cell, own), own))
    for position, missing in enumerate(source.cells):
        if missing.kind in ("test", "manual", "task") and missing.id not in last:
            later = {cell.id for cell in source.cells[position + 1 :] if cell.id}
            index = next((n for n, item in enumerate(aligned) if item.source and item.source.id in later), len(aligned))
            aligned.insert(index, AlignedCell(_restored(missing.cell, missing), missing, put_back=True))
    return aligned


def _id(cell: NotebookNode) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def _restored(cell: NotebookNode, own: SourceCell | None) -> NotebookNode:
    locked = own is not None and (own.kind in ("test", "task", "teacher", "text"))
    restored = new_cell(own.cell.cell_type if own else cell.cell_type, own.text if own and locked else cell.source)
    if "attachments" in cell:
        restored["attachments"] = cell.attachments
    if own:
        restored.metadata["nbgrader"] = copy.deepcopy(own.cell.metadata["nbgrader"])
    return restored
