"""The records of a graded class: its scores in the gradebook, each cell's grade, and the answers as they were graded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec
from nbgrader.api import Grade, MissingEntry
from nbgrader.utils import is_grade, is_solution
from sqlalchemy import case, null, text
from sqlalchemy.exc import SQLAlchemyError

from autograder.course.canonical import read
from autograder.errors import InputError
from autograder.grade.batch.course_folders import AssignmentFolders, opened_gradebook
from autograder.grade.batch.gradebook import Score, points_by_cell, read_scores
from autograder.grade.submission.notebook_grade import CellGrade


@dataclass(frozen=True)
class ClassGrades:
    """The grades of one assignment."""

    max_points: float  # the points of the assignment
    scores: dict[str, Score]  # student → score; students without a submission are missing


def read_class_grades(folders: AssignmentFolders) -> ClassGrades:
    """Return the grades of an assignment. Raise InputError if it has none yet."""
    missing = InputError(f"{folders.assignment} has no grades yet. Run `autograder grade {folders.assignment}` first")
    if not folders.has_gradebook:  # nbgrader would create an empty one
        raise missing
    with opened_gradebook(folders) as book:
        try:
            assignment = book.find_assignment(folders.assignment)
        except MissingEntry:
            raise missing from None
        if not (scores := read_scores(book, folders.assignment)):
            raise missing
        return ClassGrades(float(assignment.max_score), scores)


class RecordedRow(msgspec.Struct, frozen=True):
    """The stored grades of one student: the grade of each cell, by notebook and the cell's id."""

    cells: dict[str, dict[str, CellGrade]] = {}


class TestedCell(msgspec.Struct, frozen=True):
    """A graded cell of the source, and the ids of the answers that it tests."""

    notebook: str  # the notebook's name
    id: str  # nbgrader's id of the cell
    max_points: float  # the points of the cell
    answers: tuple[str, ...]  # the ids of the solution cells before it; tests of one answer have the same ones


class ClassRecords(msgspec.Struct, frozen=True):
    """The records of one assignment."""

    assignment: str  # nbgrader's name of the assignment
    max_points: float  # the points of the assignment
    cells: list[TestedCell]  # the graded cells, in the source's order
    rows: dict[str, RecordedRow]  # the stored grades by student, in the order of their ids
    scores: dict[str, Score]  # the score of each student, including manual grades and late penalties
    # by student, and by a cell's notebook and id, the points in the gradebook; None for a cell that waits for manual
    # grading
    points: dict[str, dict[tuple[str, str], float | None]] = {}

    def grade(self, student: str, cell: TestedCell) -> CellGrade | None:
        """Return a student's grade of a cell; None if it was not stored."""
        return self.rows[student].cells.get(cell.notebook, {}).get(cell.id)


def read_records(folders: AssignmentFolders) -> ClassRecords:
    """Return the stored records of an assignment. Raise InputError if `autograder grade` has not graded it."""
    grades = read_class_grades(folders)
    query = "SELECT student, cells FROM autograder_grade WHERE assignment = :a ORDER BY student"
    with opened_gradebook(folders) as book:
        try:
            stored = book.db.execute(text(query), {"a": folders.assignment}).all()
        except SQLAlchemyError:
            stored = []
        is_waiting = Grade.needs_manual_grade & Grade.manual_score.is_(None)
        points = points_by_cell(book, folders.assignment, case((is_waiting, null()), else_=Grade.score))
    rows = {
        row.student: msgspec.json.decode(row.cells, type=RecordedRow) for row in stored if row.student in grades.scores
    }
    if not rows:
        raise InputError(
            f"{folders.assignment} was not graded by `autograder grade`, which records the data of the report. Grade it again"
        )
    return ClassRecords(folders.assignment, grades.max_points, tested_cells(folders), rows, grades.scores, points)


def tested_cells(folders: AssignmentFolders) -> list[TestedCell]:
    """Return the graded cells of an assignment's sources, in order."""
    cells: list[TestedCell] = []
    for path in folders.notebooks():
        answers: tuple[str, ...] = ()
        is_tested = False  # the next solution cell begins another answer
        for cell in read(path).cells:
            about = cell.metadata.get("nbgrader", {})
            if is_solution(cell):
                answers = (*(() if is_tested else answers), about.grade_id)
            is_tested = is_grade(cell) or (is_tested and not is_solution(cell))
            if is_grade(cell):
                cells.append(TestedCell(path.stem, about.grade_id, float(about.points), answers))
    return cells


class GradedNotebook:
    """A student's graded notebook: the sources of answers, and the pictures next to tests.

    It is empty if the file in autograded/ is missing or damaged.
    """

    def __init__(self, folders: AssignmentFolders, student: str, notebook: str) -> None:
        try:
            cells = json.loads((folders.autograded(student) / f"{notebook}.ipynb").read_bytes())["cells"]
        except (OSError, ValueError, KeyError, TypeError):
            cells = []
        self._cells = {str(cell.get("metadata", {}).get("nbgrader", {}).get("grade_id")): cell for cell in cells}

    def answer(self, ids: tuple[str, ...]) -> str:
        """Return the sources of these cells, joined by empty lines."""
        return "\n\n".join(_text(self._cells[name].get("source")) for name in ids if name in self._cells)

    def shown(self, name: str) -> str:
        """Return the HTML output of a test; "" if it has no output."""
        outputs = self._cells.get(name, {}).get("outputs", [])
        return "".join(_text(output.get("data", {}).get("text/html")) for output in outputs)


def _text(lines: Any) -> str:
    return lines if isinstance(lines, str) else "".join(map(str, lines or []))
