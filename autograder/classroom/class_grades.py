"""The grades of an assignment in the gradebook, for reports and for the return to a platform."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nbgrader.api import (
    Assignment,
    BaseCell,
    Comment,
    Grade,
    Gradebook,
    MissingEntry,
    Notebook,
    SubmittedAssignment,
    SubmittedNotebook,
)

from autograder.errors import InputError
from autograder.grade.batch.classroom import Classroom, opened_gradebook
from autograder.grade.batch.gradebook import Score, read_scores


class NotGradedError(InputError):
    """The assignment has not been graded yet."""


@dataclass(frozen=True)
class ClassGrades:
    """The grades of one assignment.

    Attributes:
        max_points: the points of the assignment.
        scores: student → score; students without a submission are missing.
        names: student → name, for students whose names are in the gradebook.
    """

    max_points: float
    scores: dict[str, Score]
    names: dict[str, str]


def read_class_grades(classroom: Classroom) -> ClassGrades:
    """Return the grades of an assignment.

    Raises:
        NotGradedError: it has no grades yet.
    """
    missing = NotGradedError(
        f"{classroom.assignment} has no grades yet. Run `autograder grade {classroom.assignment}` first"
    )
    if not classroom.has_gradebook:  # nbgrader would create an empty one
        raise missing
    with opened_gradebook(classroom) as book:
        try:
            assignment = book.find_assignment(classroom.assignment)
        except MissingEntry:
            raise missing from None
        scores = read_scores(book, classroom.assignment)
        names = {row.id: ", ".join(part for part in (row.last_name, row.first_name) if part) for row in book.students}
        if not scores:
            raise missing
        return ClassGrades(
            float(assignment.max_score), scores, {student: name for student, name in names.items() if name}
        )


def read_cell_points(classroom: Classroom) -> dict[str, dict[tuple[str, str], float | None]]:
    """Return each student's points by notebook and cell; None for a cell that waits for manual grading."""
    found: dict[str, dict[tuple[str, str], float | None]] = {}
    is_waiting = Grade.needs_manual_grade & Grade.manual_score.is_(None)
    with opened_gradebook(classroom) as book:
        for student, notebook, cell, points, waits in cell_rows(book, classroom, Grade, Grade.score, is_waiting):
            found.setdefault(student, {})[notebook, cell] = None if waits else points
    return found


def cell_rows(book: Gradebook, classroom: Classroom, kind: type[Grade] | type[Comment], *columns: Any) -> Any:
    """Return a query of an assignment's grades or comments: student, notebook, cell, and the given columns of each."""
    return (
        book.db.query(SubmittedAssignment.student_id, Notebook.name, BaseCell.name, *columns)
        .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .join(Notebook, Notebook.id == SubmittedNotebook.notebook_id)
        .join(Assignment, Assignment.id == SubmittedAssignment.assignment_id)
        .join(kind, kind.notebook_id == SubmittedNotebook.id)
        .join(BaseCell, BaseCell.id == kind.cell_id)
        .filter(Assignment.name == classroom.assignment)
    )
