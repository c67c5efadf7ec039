"""The difficulty of each exercise, and how well it separates strong from weak students.

The difficulty is the mean share of the points; the discrimination is the correlation of that share with the points of
all other cells (the corrected item-total correlation); Cronbach's alpha is the reliability of the whole.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec


class ItemStatistics(msgspec.Struct, frozen=True):
    """The statistics of one cell.

    Attributes:
        difficulty: mean share of the points, from 0 to 1; 1 is easy. None if the cell gives 0 points or has not been
            graded.
        discrimination: from -1 to 1; None if all students have the same points, in the cell or in the rest.
    """

    difficulty: float | None
    discrimination: float | None


def item_statistics(points: Sequence[Sequence[float | None]], most: Sequence[float]) -> list[ItemStatistics]:
    """Return the statistics of each cell.

    Args:
        points: for each student, the points in each cell; None if the cell waits for manual grading, in which case it
            is ignored.
        most: the maximum points of each cell.
    """
    totals = [sum(one or 0.0 for one in row) for row in points]
    found = []
    for number, highest in enumerate(most):
        pairs = [
            (one, total - one) for row, total in zip(points, totals, strict=True) if (one := row[number]) is not None
        ]
        own, rest = [one for one, _ in pairs], [other for _, other in pairs]
        difficulty = statistics.fmean(own) / highest if own and highest else None
        found.append(ItemStatistics(difficulty, _correlation(own, rest)))
    return found


def cronbach_alpha(points: Sequence[Sequence[float]]) -> float | None:
    """Return the reliability of the sum; None for fewer than two cells or students, or if all sums are equal."""
    if len(points) < 2 or len(points[0]) < 2:
        return None
    whole = statistics.variance([sum(row) for row in points])
    if not whole:
        return None
    count = len(points[0])
    return count / (count - 1) * (1 - sum(statistics.variance(column) for column in zip(*points, strict=True)) / whole)


def _correlation(one: list[float], other: list[float]) -> float | None:
    if len(one) < 3 or len(set(one)) < 2 or len(set(other)) < 2:
        return None
    return statistics.correlation(one, other)
