"""The grades of an assignment, as the gradebook has them: what goes back to a platform, and into the report."""

from __future__ import annotations

from typing import Any, NamedTuple

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
    """The assignment has no grades yet."""


class ClassGrades(NamedTuple):
    """The grades of one assignment.

    Attributes:
        max_points: of the assignment.
        scores: by student; who handed in nothing has none.
        names: of students whose names the gradebook has.
    """

    max_points: float
    scores: dict[str, Score]
    names: dict[str, str]


def read_class_grades(classroom: Classroom) -> ClassGrades:
    """Returns the grades of an assignment.

    Raises:
        NotGradedError: nobody has a grade in it.
    """
    missing = NotGradedError(
        f"{classroom.assignment} has no grades yet. Run `autograder grade {classroom.assignment}` first"
    )
    if not classroom.has_gradebook:  # nbgrader would make an empty one
        raise missing
    with opened_gradebook(classroom) as book:
        try:
            assignment = book.find_assignment(classroom.assignment)
        except MissingEntry:
            raise missing from None
        scores = read_scores(book, classroom.assignment)
        names = {one.id: ", ".join(part for part in (one.last_name, one.first_name) if part) for one in book.students}
        if not scores:
            raise missing
        return ClassGrades(
            float(assignment.max_score), scores, {student: name for student, name in names.items() if name}
        )


def read_cell_points(classroom: Classroom) -> dict[str, dict[tuple[str, str], float | None]]:
    """Returns each student's points by notebook and cell; None while a person has still to give them."""
    found: dict[str, dict[tuple[str, str], float | None]] = {}
    is_waiting = Grade.needs_manual_grade & Grade.manual_score.is_(None)
    with opened_gradebook(classroom) as book:
        for student, notebook, cell, points, waits in cell_rows(book, classroom, Grade, Grade.score, is_waiting):
            found.setdefault(student, {})[notebook, cell] = None if waits else points
    return found


def cell_rows(book: Gradebook, classroom: Classroom, kind: type[Grade] | type[Comment], *columns: Any) -> Any:
    """Returns a query of an assignment's grades or comments: student, notebook, cell, and the given columns of each."""
    return (
        book.db.query(SubmittedAssignment.student_id, Notebook.name, BaseCell.name, *columns)
        .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .join(Notebook, Notebook.id == SubmittedNotebook.notebook_id)
        .join(Assignment, Assignment.id == SubmittedAssignment.assignment_id)
        .join(kind, kind.notebook_id == SubmittedNotebook.id)
        .join(BaseCell, BaseCell.id == kind.cell_id)
        .filter(Assignment.name == classroom.assignment)
    )
