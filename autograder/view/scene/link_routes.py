"""The lines between blocks: links along which gradients flow, and a dashed line from a saved tensor's row to the tensor."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from autograder.view.keys import Key
from autograder.view.scene.layout import Placement, Point
from autograder.view.shapes import Shape, group, path

SIDES = ((1, 1), (-1, -1), (1, 0), (-1, 0))
"""The sides at which the line of a saved tensor may leave its row and enter the block: 1 right, -1 left, 0 from below."""

Curve = tuple[Point, Point, Point, Point]
"""A cubic Bézier curve: its start, two control points, its end."""


def draw_link(key: Key, upper: Placement, lower: Placement, bends: Sequence[Point]) -> Shape:
    """Return a gradient's path between two blocks, with an arrow upwards, the direction of backward.

    Args:
        key: the key of the lower block.
        upper: the upper block.
        lower: the lower block.
        bends: the points between them.
    """
    reach = (lower.width - 30) / 2
    end = lower.x + max(-reach, min(reach, (upper.x - lower.x) * 0.4))
    reach = (upper.width - 30) / 2
    start = upper.x + max(-reach, min(reach, (lower.x - upper.x) * 0.2))
    top = upper.y + upper.height
    points = [(start, top + 5), *bends, (end, lower.y)]
    route = f"M{points[0][0]:.0f} {points[0][1]:.0f}"
    for (x1, y1), (x2, y2) in pairwise(points):
        middle = (y1 + y2) / 2
        route += f"C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}"
    arrow = f"M{start - 4:.0f} {top + 9:.0f}L{start:.0f} {top + 2:.0f}L{start + 4:.0f} {top + 9:.0f}z"
    return group(path(route), path(arrow, kind="arrow"), kind="link", k=key)


def route_saved(below: Placement, above: Placement, start: float, end: float, others: Collection[Placement]) -> str:
    """Return the line from a saved tensor's row to the block of that tensor, as an SVG path.

    Args:
        below, above: the blocks of the row and of the tensor; the same block if a node saved its own result.
        start, end: the heights at which the line leaves and enters, in pixels.
        others: blocks that it should not run behind.
    """
    curves = [_curve(below, above, start, end, side, entry) for side, entry in SIDES]
    best = curves[0] if below is above else min(curves, key=lambda curve: _cost(curve, others))
    (x1, y1), (x2, y2), (x3, y3), (x4, y4) = best
    return f"M{x1:.0f} {y1:.0f}C{x2:.0f} {y2:.0f} {x3:.0f} {y3:.0f} {x4:.0f} {y4:.0f}"


def _curve(below: Placement, above: Placement, start: float, end: float, side: int, entry: int) -> Curve:
    """Return the curve that leaves one block at `side` and enters another at `entry` (see SIDES)."""
    x, to = below.x + side * below.width / 2, above.x + entry * above.width / 2
    if entry:
        out = max(side * x, side * to) * side + side * 22
        return (x, start), (out, start), (out, end), (to, end)
    reach, bottom = above.width / 2 - 14, above.y + above.height
    to = max(above.x - reach, min(above.x + reach, x + side * 18))
    return (x, start), (x + side * 26, start), (to, bottom + 40), (to, bottom)


def _cost(curve: Curve, others: Collection[Placement]) -> float:
    """Return the cost of a curve: the number of points, of eleven, that are inside another block, then its length."""
    (x1, y1), (x2, y2), (x3, y3), (x4, y4) = curve
    hidden = 0
    for step in range(1, 12):
        t = step / 12
        u = 1 - t
        x = u**3 * x1 + 3 * u * u * t * x2 + 3 * u * t * t * x3 + t**3 * x4
        y = u**3 * y1 + 3 * u * u * t * y2 + 3 * u * t * t * y3 + t**3 * y4
        hidden += sum(abs(x - o.x) < o.width / 2 + 4 and o.y - 4 < y < o.y + o.height + 4 for o in others)
    left = 8 * (x2 < x1)  # the arrow to the line of code leaves on this side
    return hidden * 1000 + left + abs(x1 - x2) + abs(x2 - x3) + abs(x3 - x4) + abs(y1 - y4)
