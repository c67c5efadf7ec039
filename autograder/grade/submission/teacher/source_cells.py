"""The cells of a source notebook, one by one: of which kind each is, what is released of it, and what it is worth."""

from __future__ import annotations

from typing import Literal, NamedTuple

from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.preprocessors import ClearHiddenTests

from autograder.course.nbgrader_release import KeepStubs
from autograder.errors import InputError

Kind = Literal["test", "manual", "answer", "task", "teacher", "text"]
Process = Literal["", "one", "two"]


class SourceError(InputError):
    """The source notebook cannot be used for grading; the message names the cell and says what to do."""


class SourceCell(NamedTuple):
    """One cell of the source.

    Attributes:
        id: nbgrader's grade_id, "" for a cell that nbgrader does not know.
        kind: "test" is graded by running it, "manual" and "task" by a person, "answer" is the learner's, "teacher" is other
            code, "text" other text.
        text: includes hidden tests; of an answer, what was released.
        visible: the text that was released.
        points: the maximum; 0 for a cell that is not graded.
        cell: as nbgrader would release it, but with hidden tests; its metadata decide points.
        full: the text as the teacher wrote it, with the model solution.
        process: what the cell's own metadata say of the process that judges it; "" if they say nothing.
        counts: whether the cell's own metadata say that it counts although the model answer fails it.
    """

    id: str
    kind: Kind
    text: str
    visible: str
    points: float
    cell: NotebookNode
    full: str
    process: Process = ""
    counts: bool = False

    @property
    def is_learners(self) -> bool:
        """Whether learners write it: an answer that tests look at, or one that a person grades."""
        return self.kind == "answer" or (self.kind == "manual" and utils.is_solution(self.cell))

    @property
    def has_model(self) -> bool:
        """Whether the source holds an answer that is not simply what was handed out."""
        return self.full != self.text

    @property
    def hides(self) -> bool:
        """Whether learners see only part of the text."""
        return self.visible != self.text


def source_cell(cell: NotebookNode) -> SourceCell:
    """Returns a cell of the source notebook, with its checksum as nbgrader computes it.

    Raises:
        SourceError: it cannot be graded.
    """
    known = cell.metadata.get("nbgrader", {})
    released = _released(cell) if utils.is_solution(cell) else cell
    visible = _without_hidden_tests(released)
    kind = _kind(cell)
    if known.get("grade_id"):
        known["checksum"] = utils.compute_checksum(released)
    points = float(known.get("points") or 0) if kind in ("test", "manual", "task") else 0.0
    name = known.get("grade_id", "")
    return SourceCell(name, kind, released.source, visible, points, released, cell.source, *_settings(cell, name))


def _settings(cell: NotebookNode, name: str) -> tuple[Process, bool]:
    """Returns what a cell's metadata say under "autograder": "process" and "counts"."""
    own = cell.metadata.get("autograder", {})
    process, counts = (own.get("process", ""), own.get("counts", False)) if isinstance(own, dict) else (own, False)
    if process not in ("", "one", "two") or not isinstance(counts, bool):
        raise SourceError(
            f'the cell {name!r} has the metadata {{"autograder": {own!r}}}. Known are {{"process": "one"}}, '
            f'{{"process": "two"}} and {{"counts": true}}'
        )
    return process, counts


def _kind(cell: NotebookNode) -> Kind:
    if utils.is_task(cell):
        return "task"
    if utils.is_grade(cell):
        return "manual" if utils.is_solution(cell) or cell.cell_type != "code" else "test"
    if utils.is_solution(cell):
        return "answer"
    return "teacher" if cell.cell_type == "code" else "text"


def _released(cell: NotebookNode) -> NotebookNode:
    copy = NotebookNode(cell | {"metadata": NotebookNode(cell.metadata)})
    cleared, _ = KeepStubs().preprocess_cell(copy, {"language": "python"}, 0)
    return cleared


def _without_hidden_tests(cell: NotebookNode) -> str:
    copy = NotebookNode(cell)
    ClearHiddenTests()._remove_hidden_test_region(copy)  # nbgrader 0.9.6 has no public name for it
    return copy.source
