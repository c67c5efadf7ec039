"""Source notebooks and submissions of a few lines, for tests of the grader."""

from __future__ import annotations

import nbformat
from traitlets.config import Config

from autograder.grade.submission.notebook_grade import NotebookGrade
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.submission.teacher.source_reader import bundle_of

KNOWN = {"grade": False, "solution": False, "locked": False, "schema_version": 3, "task": False}


def teacher(text: str) -> nbformat.NotebookNode:
    """Return a teacher's cell that nbgrader does not know."""
    return nbformat.v4.new_code_cell(text)


def answer(name: str, text: str) -> nbformat.NotebookNode:
    """Return an answer cell; `text` is the model solution, or the student's text."""
    text = f"### BEGIN SOLUTION\n{text}\n### END SOLUTION"
    return nbformat.v4.new_code_cell(text, metadata={"nbgrader": KNOWN | {"grade_id": name, "solution": True}})


def graded_cell(name: str, text: str, points: float = 1, **metadata: object) -> nbformat.NotebookNode:
    """Return a test cell."""
    known = KNOWN | {"grade_id": name, "grade": True, "locked": True, "points": points}
    return nbformat.v4.new_code_cell(text, metadata={"nbgrader": known, **metadata})


def source(*cells: nbformat.NotebookNode, files: dict[str, bytes] | None = None) -> AssignmentSource:
    """Return a source of these cells, with these files in its folder."""
    return source_of("small", nbformat.v4.new_notebook(cells=list(cells)), files)


def source_of(
    name: str, notebook: nbformat.NotebookNode, files: dict[str, bytes] | None = None, settings: Config | None = None
) -> AssignmentSource:
    """Return the source of a notebook outside of a course's folder; `settings` are nbgrader's."""
    return bundle_of(name, notebook, files or {}, settings or Config())


def hand_in(of: AssignmentSource, answers: dict[str, str] | None = None) -> bytes:
    """Return a submission with these answers and otherwise the release; None stands for all model answers."""
    cells = []
    for cell in of.cells:
        model = cell.full if answers is None else answers.get(cell.id, cell.visible)
        kept = nbformat.v4.new_code_cell(model, metadata=cell.cell.metadata)
        cells.append(kept)
    return nbformat.writes(nbformat.v4.new_notebook(cells=cells)).encode()


def points(graded: NotebookGrade) -> dict[str, float | None]:
    """Return the points of each cell."""
    return {name: cell.points for name, cell in graded.cells.items()}


def printed(graded: NotebookGrade) -> str:
    """Return the text that the cells and tests of a graded notebook printed."""
    outputs = [output for cell in nbformat.reads(graded.notebook, 4).cells for output in cell.get("outputs", ())]
    return "".join(output.text for output in outputs if output.output_type == "stream")
