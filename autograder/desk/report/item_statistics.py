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
        difficulty: mean share of the points, from 0 to 1; 1 is easy.
        discrimination: from -1 to 1; None where all have the same points, in the cell or in the rest.
    """

    difficulty: float
    discrimination: float | None


def item_statistics(points: Sequence[Sequence[float]], most: Sequence[float]) -> list[ItemStatistics]:
    """Returns the statistics of each cell.

    Args:
        points: for each student the points in each cell.
        most: what each cell gives.
    """
    totals = [sum(row) for row in points]
    found = []
    for number, highest in enumerate(most):
        own = [row[number] for row in points]
        rest = [total - one for total, one in zip(totals, own, strict=True)]
        found.append(ItemStatistics(statistics.fmean(own) / highest if highest else 1.0, _correlation(own, rest)))
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
