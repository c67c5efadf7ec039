"""Line breaks in any language: Chinese has no spaces, and its letters are two columns wide."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator

WIDE = "\u2e80-\u2fff\u3040-\ua4cf\uac00-\ud7a3\uf900-\ufaff"
OPENING, CLOSING = "（《“「【", "，。、；：！？）》”」】…"
PIECE = re.compile(rf"[{OPENING}]*(?:[{WIDE}]|[^\s{WIDE}{OPENING}{CLOSING}]+)?[{CLOSING}]*\s*")
"""A piece without line breaks: a letter or a word, with adjacent punctuation and the following space."""

FULL_WIDTH = "（《「【，。、；：！？）》」】"
BLANK = re.compile(rf" (?=[{FULL_WIDTH}])|(?<=[{FULL_WIDTH}]) |(?<=[{WIDE}]) (?=[{WIDE}])")

SEAM = re.compile(rf"((?<=[{CLOSING}])|(?<=[{WIDE}])(?=\n *[{WIDE}{OPENING}]))\n *(?![\s|#<>]|[-+*] |\d+[.)] |```)")
"""A line end inside a Markdown paragraph that must not become a space: next to full-width punctuation or between wide letters."""


def columns(words: str) -> int:
    """Return the width of a text in columns: two for a wide (East Asian) letter, zero for a combining mark."""
    if words.isascii():
        return len(words)
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in words
    )


def wrap_text(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Return a text as lines of at most `width` columns; a longer word is broken.

    Args:
        text: the text.
        width: the maximum number of columns.
        first, rest: the indentation of the first line and of the others.
    """
    if columns(first + text) == len(first + text):
        return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    lines = [first]
    for piece in _pieces(" ".join(text.split()), width - columns(rest)):
        if columns((lines[-1] + piece).rstrip()) > width:
            lines.append(rest)
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _pieces(text: str, width: int) -> Iterator[str]:
    """Yield the pieces of a text between which a line may break; a word wider than a line is split into letters."""
    for piece in filter(None, PIECE.findall(text)):
        yield from piece if columns(piece.rstrip()) > width else [piece]


def join_lines(lines: Iterable[str]) -> str:
    """Return wrapped lines as one text, without spaces between wide letters or next to full-width punctuation."""
    return BLANK.sub("", " ".join(line.strip() for line in lines))


def split_rows(message: str) -> list[str]:
    """Return the first line of a message and its rows, which two spaces indent, each without the breaks of its wrapping."""
    return [join_lines(row.splitlines()) for row in re.split(r"\n(?=  \S)", message)]


def join_wide(markdown: str) -> str:
    """Return a Markdown paragraph or list with its wide lines joined; items, rows, headings and tags stay separate."""
    return SEAM.sub("", markdown)
