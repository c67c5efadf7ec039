"""How hard each exercise was, and how well it tells apart who knows the rest.

Difficulty is the mean share of its points; discrimination the correlation of those shares with the points of all other cells (the
corrected item-total correlation); Cronbach's alpha is the reliability of the whole.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec


class ItemStatistics(msgspec.Struct, frozen=True):
    """The statistics of one cell.

    Attributes:
        difficulty: mean share of the points, from 0 to 1; 1 is easy. None for a cell that gives no points, or nobody has any yet.
        discrimination: from -1 to 1; None where all have the same points, in the cell or in the rest.
    """

    difficulty: float | None
    discrimination: float | None


def item_statistics(points: Sequence[Sequence[float | None]], most: Sequence[float]) -> list[ItemStatistics]:
    """Returns the statistics of each cell.

    Args:
        points: for each student the points in each cell; None where a person has still to give them, which counts nowhere.
        most: what each cell gives.
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
    """Returns the reliability of the sum; None for fewer than two cells or students, or where all have the same sum."""
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
