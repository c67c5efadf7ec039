"""The grades of an assignment in the gradebook, for reports and for the return to a platform."""

from __future__ import annotations

from dataclasses import dataclass

from nbgrader.api import Grade, MissingEntry

from autograder.errors import InputError
from autograder.grade.batch.classroom import Classroom, opened_gradebook
from autograder.grade.batch.gradebook import Score, cell_rows, read_scores


@dataclass(frozen=True)
class ClassGrades:
    """The grades of one assignment."""

    max_points: float  # the points of the assignment
    scores: dict[str, Score]  # student → score; students without a submission are missing


def read_class_grades(classroom: Classroom) -> ClassGrades:
    """Return the grades of an assignment; raise InputError if it has none yet."""
    missing = InputError(
        f"{classroom.assignment} has no grades yet. Run `autograder grade {classroom.assignment}` first"
    )
    if not classroom.has_gradebook:  # nbgrader would create an empty one
        raise missing
    with opened_gradebook(classroom) as book:
        try:
            assignment = book.find_assignment(classroom.assignment)
        except MissingEntry:
            raise missing from None
        if not (scores := read_scores(book, classroom.assignment)):
            raise missing
        return ClassGrades(float(assignment.max_score), scores)


def read_cell_points(classroom: Classroom) -> dict[str, dict[tuple[str, str], float | None]]:
    """Return each student's points by notebook and cell; None for a cell that waits for manual grading."""
    found: dict[str, dict[tuple[str, str], float | None]] = {}
    is_waiting = Grade.needs_manual_grade & Grade.manual_score.is_(None)
    with opened_gradebook(classroom) as book:
        rows = cell_rows(book, classroom.assignment, Grade, Grade.score, is_waiting)
        for student, notebook, cell, points, waits in rows:
            found.setdefault(student, {})[notebook, cell] = None if waits else points
    return found
