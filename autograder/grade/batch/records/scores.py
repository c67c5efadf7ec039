"""The scores that students get, as the gradebook has them: with what a person entered, and late penalties."""

from __future__ import annotations

from typing import Any, NamedTuple

from nbgrader.api import Assignment, Grade, Gradebook, SubmittedAssignment, SubmittedNotebook
from sqlalchemy import case, func


class Score(NamedTuple):
    """What the gradebook says of one student's work on the assignment.

    Attributes:
        points: with marks that a person entered and extra credit, before the late penalty.
        late_penalty: the points taken off because the work was late.
        waiting: how many cells a person has still to grade.
    """

    points: float
    late_penalty: float
    waiting: int

    @property
    def total(self) -> float:
        """The points that the student gets, as `nbgrader export` computes them (nbgrader/plugins/export.py, 0.9.6)."""
        return max(0.0, self.points - self.late_penalty)


def read_scores(book: Gradebook, assignment: str) -> dict[str, Score]:
    """Returns the score of every student with a submission."""
    penalties = _sums(book, assignment, func.coalesce(func.sum(SubmittedNotebook.late_submission_penalty), 0.0))
    penalty = {student: points for student, points in penalties}
    waiting = func.sum(case((Grade.needs_manual_grade, 1), else_=0))
    graded = _sums(book, assignment, func.coalesce(func.sum(Grade.score), 0.0), waiting)
    by_cell = graded.join(Grade, Grade.notebook_id == SubmittedNotebook.id)
    return {student: Score(points, penalty[student], count) for student, points, count in by_cell}


def _sums(book: Gradebook, assignment: str, *sums: Any) -> Any:
    """Returns a query of sums over the submitted notebooks, for each student."""
    return (
        book.db.query(SubmittedAssignment.student_id, *sums)
        .join(Assignment, Assignment.id == SubmittedAssignment.assignment_id)
        .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .filter(Assignment.name == assignment)
        .group_by(SubmittedAssignment.student_id)
    )
