"""Drawings as plain data: the static picture is written from them as SVG text, and the front-end module creates SVG elements.

A shape is `[tag, attributes, *children]`; a child is a shape or a text. The tags and attributes are those of SVG, and
three more: `k` is a key whose state, a class name or the words of a text element, changes from frame to
frame; the shape is hidden until a frame sets the state. `s` is the storage that a shape belongs to; `opens` is the view
that a fold opens.

A frame gives every part that it changes a new state: a class name, or the words of a text element. Python code reads
the fields of a key; in a drawing and in JSON, a key is an opaque text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from autograder.locale.line_breaks import columns

Part = Literal["node", "tensor", "fold", "outside", "saved", "alias", "memory", "got", "right", "stop", "line"]
Label = Literal["", "name", "values", "version", "versions", "change", "note"]


@dataclass(frozen=True)
class Key:
    """One part of the picture, or one text inside it."""

    # "node", "fold" and "tensor" (one without a node) are blocks of the graph, and "outside" is the stub of a node
    # outside an opened fold; "saved" is a saved tensor's row and line; "memory" is a storage in the memory pane and
    # "alias" a tensor in it; "got", "right" and "stop" are texts above a block while backward visits it; "line" is a
    # line of code
    part: Part
    # the id in the recording; for a fold, the number of the view that it opens; for a line, its 1-based number
    number: int
    label: Label = ""  # the text of the part; "" for the part itself
    program: int = 0  # for a line, the 0-based number of its program

    def __str__(self) -> str:
        """The key as text in drawings and JSON: "node3", "node3.values", "line0.8"."""
        where = f"{self.program}.{self.number}" if self.part == "line" else str(self.number)
        return f"{self.part}{where}.{self.label}" if self.label else f"{self.part}{where}"

    def text(self, label: Label) -> Key:
        """Return the key of a text inside this part."""
        return replace(self, label=label)


Shape = list[Any]


class Drawing(msgspec.Struct):
    """One pane: shapes on a field of `width` × `height` pixels whose upper left corner is at (left, top)."""

    left: float
    top: float
    width: float
    height: float
    shapes: list[Shape]
    title: str = ""  # the title of the pane
    parent: int | None = None  # for the contents of a fold, the number of the view with the fold


MONO, SMALL, BOLD = 7.25, 6.65, 7.4
"""Widths of one character, in pixels: 12 px monospace, 11 px monospace, and an upper estimate for 12 px bold sans-serif."""


def walk(tree: Shape) -> Iterator[Shape]:
    """Yield a shape and all shapes inside it."""
    yield tree
    for child in tree[2:]:
        if isinstance(child, list):
            yield from walk(child)


def shape(tag: str, *children: Shape | str, **attributes: Any) -> Shape:
    """Return one shape; `kind` is its class. Attributes that are None or "" are omitted."""
    kept = {
        "class" if name == "kind" else name: plain(value)
        for name, value in attributes.items()
        if value not in (None, "")
    }
    return [tag, kept, *children]


def plain(value: Any) -> Any:
    """Return an attribute's value as data: a key as its text, a number rounded to a tenth of a pixel."""
    if isinstance(value, Key):
        return str(value)
    if isinstance(value, float):
        value = round(value, 1)
        return int(value) if value.is_integer() else value
    return value


def group(*children: Shape | str, **attributes: Any) -> Shape:
    """Return a group of shapes."""
    return shape("g", *children, **attributes)


def box(x: float, y: float, width: float, height: float, radius: float | None = None, **attributes: Any) -> Shape:
    """Return a rectangle; (x, y) is its upper left corner."""
    return shape("rect", x=x, y=y, width=width, height=height, rx=radius, **attributes)


def text(x: float, y: float, words: str = "", **attributes: Any) -> Shape:
    """Return a line of text; `y` is its baseline."""
    return shape("text", *([words] if words else []), x=x, y=y, **attributes)


def path(route: str, **attributes: Any) -> Shape:
    """Return a path; `route` is its SVG path data."""
    return shape("path", d=route, **attributes)


def tone_of(outcome: str) -> str:
    """Return the class that gives a drawing the color of an outcome."""
    return {"correct": "fine", "silently-wrong": "silent"}.get(outcome, "bad")


def clip(words: str, limit: int) -> str:
    """Return the text on one line, cut to `limit` columns with an ellipsis."""
    words = " ".join(words.split())
    if columns(words) <= limit:
        return words
    line = ""
    for letter in words:
        if columns(line + letter) > limit - 1:
            break
        line += letter
    return line.rstrip(" …") + "…"
