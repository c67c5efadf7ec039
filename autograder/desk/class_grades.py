"""The grades of an assignment, as the gradebook has them: what goes back to a platform, and into the report."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from nbgrader.api import Gradebook, MissingEntry
from sqlalchemy.engine import make_url

from autograder.errors import InputError
from autograder.grade.batch.classroom import Classroom
from autograder.grade.batch.scores import Score, read_scores


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
    if not Path(make_url(classroom.gradebook).database or "").is_file():  # nbgrader would make an empty one
        raise missing
    with Gradebook(classroom.gradebook, classroom.course_id) as book:
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
