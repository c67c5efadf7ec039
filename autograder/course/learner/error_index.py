"""A search in the table of start/errors.ipynb, which maps error messages to the lessons that explain them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autograder.course.canonical import read
from autograder.course.paths import NOTEBOOKS
from autograder.locale.languages import language
from autograder.locale.notebook_translation import in_language
from autograder.locale.translations import translated

PAGE = NOTEBOOKS / "start" / "errors.ipynb"
TABLE = "## The lesson for each message"


@dataclass(frozen=True)
class ErrorRow:
    """One row of the table: parts of messages, the cause, the first thing to look at, and the lessons."""

    parts: tuple[str, ...]
    happened: str
    look_at: str
    lessons: str


def error_rows() -> list[ErrorRow]:
    """Return the rows of the page that quote a message."""
    page = read(PAGE)
    at = next(number for number, cell in enumerate(page.cells) if cell.source.startswith(TABLE))
    shown = _table(in_language(page, language()).cells[at].source)
    return [
        ErrorRow(tuple(re.findall("`([^`]+)`", first)), happened, look_at, re.sub(r"\]\([^)]*\)|\[", "", lessons))
        for (first, *_), (_, happened, look_at, lessons) in zip(_table(page.cells[at].source), shown, strict=True)
        if not first.startswith("the same")
    ]


def _table(markdown: str) -> list[list[str]]:
    """Return the cells of a table's rows, without its heading."""
    return [line.strip("| ").split(" | ") for line in markdown.splitlines() if line.startswith("| ")][1:]


def find_error(message: str = "") -> None:
    """Print the meaning of a PyTorch message, and the lesson that explains it.

    Args:
        message: the message, or a part of it.
    """
    if not message.strip(" ."):
        print(translated("Paste the message between the quotes, and run the cell again."))
        return
    rows = _rows_of(message)
    for row in rows:
        look, lesson = translated("first look:"), translated("lesson")
        print(f"{row.happened}\n  {look} {row.look_at}\n  {lesson} {row.lessons}")
    if not rows:
        print(
            translated(
                "No lesson is about this message. `python3 -m autograder explain script.py` may still explain it."
            )
        )


def _rows_of(message: str) -> list[ErrorRow]:
    """Return the row with the longest quoted part in this message; else the rows whose parts contain this text."""
    text = _plain(message)
    whole = [(len(part), row) for row in error_rows() for part in row.parts if _plain(part) in text]
    if whole:
        return [max(whole, key=lambda pair: pair[0])[1]]
    return [row for row in error_rows() if any(text in _plain(part) for part in row.parts)]


def _plain(text: str) -> str:
    return " ".join(text.lower().replace("’", "'").split()).rstrip(".")
