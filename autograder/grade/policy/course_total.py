"""What a student has in the whole course: without what is excused, and without the lowest where the policy drops them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from autograder.grade.policy.course_policy import CoursePolicy


class CourseTotal(NamedTuple):
    """A student's points of those that could be had, and the assignments that do not count."""

    points: float
    max_points: float
    dropped: tuple[str, ...]


def course_total(policy: CoursePolicy, student: str, scores: Mapping[str, tuple[float, float]]) -> CourseTotal:
    """Returns the sum over a student's assignments.

    Args:
        policy: of the course.
        student: nbgrader's id.
        scores: for each assignment the points, 0 where nothing was handed in, and those that could be had.
    """
    counting = {name: score for name, score in scores.items() if student not in policy.of(name).excused}
    dropped: list[str] = []
    for rule in policy.drop_lowest:
        listed = [name for name in rule.assignments if name in counting]
        lowest = sorted(listed, key=lambda name: (_share(counting[name]), name))
        dropped += lowest[: min(rule.count, len(listed) - 1)]  # one stays, or the student would have no points at all
    kept = [score for name, score in counting.items() if name not in dropped]
    return CourseTotal(sum(points for points, _ in kept), sum(most for _, most in kept), tuple(dropped))


def _share(score: tuple[float, float]) -> float:
    return score[0] / score[1] if score[1] else 1.0
