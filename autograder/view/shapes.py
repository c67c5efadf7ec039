"""Drawings as plain data: what the static picture writes and the front-end module stamps, so nothing is drawn twice.

A shape is `[tag, attributes, *children]`; a child is a shape or a text. Two attributes are ours: `k` is a key whose state
(a class name, or the text of a text element) changes from frame to frame, `s` is the memory that lights up together.
An element with a key is hidden until a frame gives it a state.
"""

from __future__ import annotations

import unicodedata
from typing import Any

import msgspec

Shape = list[Any]


class Drawing(msgspec.Struct):
    """A picture of its own: shapes in a field from (left, top), `width` × `height` pixels large.

    Attributes:
        parent: for the inside of a fold, the number of the drawing it opens from.
    """

    left: float
    top: float
    width: float
    height: float
    shapes: list[Shape]
    title: str = ""
    parent: int | None = None


MONO, SMALL, BOLD = 7.25, 6.3, 7.4
"""Widths of one character, in pixels: 12 px monospace, 10.5 px monospace, and an upper estimate for 12 px bold sans-serif."""


def shape(tag: str, *children: Shape | str, **attributes: Any) -> Shape:
    """Returns one shape; `kind` stands for the attribute "class", an attribute of None or "" is left out."""
    names = {"kind": "class", "anchor": "text-anchor"}
    kept = {names.get(name, name): tidy(value) for name, value in attributes.items() if value not in (None, "")}
    return [tag, kept, *children]


def tidy(value: Any) -> Any:
    """Returns a number without needless digits, anything else as it is."""
    if isinstance(value, float):
        value = round(value, 1)
        return int(value) if value.is_integer() else value
    return value


def group(*children: Shape | str, **attributes: Any) -> Shape:
    """Returns a group."""
    return shape("g", *children, **attributes)


def box(x: float, y: float, width: float, height: float, radius: float | None = None, **attributes: Any) -> Shape:
    """Returns a rectangle."""
    return shape("rect", x=x, y=y, width=width, height=height, rx=radius, **attributes)


def text(x: float, y: float, words: str = "", **attributes: Any) -> Shape:
    """Returns a line of text; `y` is its baseline."""
    return shape("text", *([words] if words else []), x=x, y=y, **attributes)


def path(route: str, **attributes: Any) -> Shape:
    """Returns a line along a route in SVG's path language."""
    return shape("path", d=route, **attributes)


def columns(words: str) -> int:
    """Returns how many character cells a text takes: two for wide (East Asian) characters, none for combining marks."""
    if words.isascii():
        return len(words)
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in words
    )


def clip(words: str, limit: int) -> str:
    """Returns the text on one line, cut to `limit` character cells with an ellipsis."""
    words = " ".join(words.split())
    if columns(words) <= limit:
        return words
    kept = ""
    for letter in words:
        if columns(kept + letter) > limit - 1:
            break
        kept += letter
    return kept.rstrip() + "…"


def wrap(words: str, limit: int) -> list[str]:
    """Returns the text in lines of at most `limit` character cells, broken at spaces; a longer word is clipped."""
    lines = [""]
    for word in words.split():
        longer = f"{lines[-1]} {word}".strip()
        if columns(longer) <= limit:
            lines[-1] = longer
        else:
            lines.append(clip(word, limit))
    return [line for line in lines if line]


def letter(number: int) -> str:
    """Returns a name for the `number`-th piece of memory, counted from 0: A, B, … Z, 27, 28, …"""
    return chr(ord("A") + number) if number < 26 else str(number + 1)
