"""The graph in the static picture, cropped to the blocks of the frame if it is large."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autograder.view.draw.static_frame import StaticFrame, is_kind
from autograder.view.shapes import Drawing, Shape, box, group, shape

WIDEST, TALLEST = 720.0, 520.0
"""The maximum size of the shown part, in pixels."""


@dataclass
class GraphViewport:
    """The shown part of the graph.

    Attributes:
        shape: the drawing, at its position in the picture.
        width, height: its size in pixels.
        anchors: key of a saved tensor → the left end of its row in the picture, for each visible row.
    """

    shape: Shape
    width: float
    height: float
    anchors: dict[str, tuple[float, float]]


def draw_viewport(view: Drawing, static: StaticFrame, left: float, top: float) -> GraphViewport:
    """Return the graph with its upper left corner at (left, top)."""
    rows = {row[1]["k"]: row[2][1] for block in view.shapes for row in block[2:] if is_kind(row, "kept")}
    blocks = {
        tree[1]["k"]: tree[2][1] for tree in view.shapes if is_kind(tree, "block") and tree[1].get("k") in static.states
    }
    ends = [(card["x"] + card["width"], card["y"] + card["height"]) for card in blocks.values()] or [(150.0, 40.0)]
    wide, tall = (max(end[axis] for end in ends) - 2 * start for axis, start in enumerate((view.left, view.top)))
    focus = [rows[key] for key in rows if key in static.now] or [blocks[key] for key in blocks if key in static.now]
    spot = focus[-1] if focus else {"x": 0.0, "y": tall}
    x, width = _crop(view.left, wide, spot["x"], WIDEST)
    y, height = _crop(view.top, tall, spot["y"], TALLEST)
    shapes = [shown for tree in view.shapes if (shown := static.render(tree))]
    inside = [tree for tree in shapes if _overlaps(tree, 0, x, x + width) and _overlaps(tree, 1, y, y + height)]
    field = shape(
        "svg", *inside, x=left, y=top, width=width, height=height, viewBox=f"{x:g} {y:.0f} {width:.0f} {height:.0f}"
    )
    anchors = {key: (left + row["x"] - x, top + row["y"] - y + 8) for key, row in rows.items()}
    anchors = {k: (a, b) for k, (a, b) in anchors.items() if left < a < left + width and top < b < top + height}
    return GraphViewport(group(box(left, top, width, height, 7, kind="pane"), field), width, height, anchors)


def _crop(start: float, length: float, focus: float, most: float) -> tuple[float, float]:
    """Return the start and the length of the shown part of an axis: at most `most` pixels, around `focus`."""
    if length <= most:
        return start, length
    return max(start, min(focus - most / 2, start + length - most)), most


def _overlaps(tree: Shape, axis: int, start: float, end: float) -> bool:
    """Return whether a shape extends into a part of an axis (0 horizontal, 1 vertical)."""
    tag, attributes, *children = tree
    if tag == "g":
        return any(_overlaps(child, axis, start, end) for child in children if isinstance(child, list))
    if tag == "path":
        spots = [float(number) for number in re.findall(r"-?[\d.]+", attributes["d"].split("v")[0])[axis::2]]
        return min(spots) < end and max(spots) > start
    size = attributes.get(("width", "height")[axis], 0)
    spot = attributes.get("xy"[axis], attributes.get(("cx", "cy")[axis]))
    return spot is not None and start < spot + size and spot < end
