"""Drawings as plain data: the static picture is written from them as SVG text, and the front-end module creates SVG elements.

A shape is `[tag, attributes, *children]`; a child is a shape or a text. The tags and attributes are those of SVG, and
three more: `k` is a key (keys.py) whose state, a class name or the words of a text element, changes from frame to
frame; the shape is hidden until a frame sets the state. `s` is the storage that a shape belongs to; `opens` is the view
that a fold opens.
"""

from __future__ import annotations

from typing import Any

import msgspec

from autograder.locale.line_breaks import columns
from autograder.view.keys import Key

Shape = list[Any]


class Drawing(msgspec.Struct):
    """One pane: shapes on a field of `width` × `height` pixels whose upper left corner is at (left, top).

    Attributes:
        title: the title of the pane.
        parent: for the contents of a fold, the number of the view with the fold.
    """

    left: float
    top: float
    width: float
    height: float
    shapes: list[Shape]
    title: str = ""
    parent: int | None = None


MONO, SMALL, BOLD = 7.25, 6.65, 7.4
"""Widths of one character, in pixels: 12 px monospace, 11 px monospace, and an upper estimate for 12 px bold sans-serif."""


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
    kept = ""
    for letter in words:
        if columns(kept + letter) > limit - 1:
            break
        kept += letter
    return kept.rstrip(" …") + "…"
