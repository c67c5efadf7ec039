"""The table for manual grading: one row for each answer, with cells for points and a comment."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from autograder.classroom.reading.written_answers import WrittenAnswer
from autograder.classroom.returning.worksheet import number_in
from autograder.classroom.table_file import TableError, TableFile, read_table
from autograder.grade.batch.csv_export import harmless_cell
from autograder.printable import printable

COLUMNS = ("answer", "question", "of", "text", "points", "comment")
SHORT = re.compile(r"#(\w+)")


class Mark(NamedTuple):
    """The points (None if not graded yet) and the comment that a grader gave an answer."""

    points: float | None
    comment: str


def sheet(answers: list[WrittenAnswer], columns: tuple[str, ...] = COLUMNS) -> bytes:
    """Return the contents of the table's file, including known points and comments."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    for one in answers:
        points = "" if one.points is None else f"{one.points:g}"
        known = (one.code, one.question.cell, f"{one.question.max_points:g}", one.text, points, one.comment)
        row = dict(zip(COLUMNS, known, strict=True))
        table.writerow([harmless_cell(row.get(name, "")) for name in columns])
    return b"\xef\xbb\xbf" + text.getvalue().encode()  # begins with a byte order mark, for spreadsheets


def read_sheet(
    path: Path,
    answers: dict[str, WrittenAnswer],
    short: dict[str, str],
    points: str = "points",
    *,
    gone: Collection[str] = (),
) -> dict[str, Mark]:
    """Return the marks in the table, by the answer's code.

    Args:
        path: the table.
        answers: all answers, by code.
        short: comments by their abbreviation.
        points: the column of the points.
        gone: the codes of earlier answers, whose rows are ignored if the student has left.

    Raises:
        TableError: a column is missing, or a cell is invalid; the message contains the row.
    """
    table = read_table(path)
    places = {name: table.column(name) for name in ("answer", points)}
    if missing := [name for name, place in places.items() if place is None]:
        raise TableError(f"{printable(str(path))} has no column {missing[0]!r}. Move it away to get a new one")
    marks = {}
    for number, row in enumerate(table.rows, 2):
        code, filled = row[places["answer"] or 0], row[places[points] or 0].strip()
        if code in answers:
            marks[code] = _mark(table, row, places[points] or 0, answers[code], short, number)
        elif filled and code not in gone:
            raise TableError(f"{table.name}, row {number}: no answer has the code {printable(code)}")
    return marks


def read_short_comments(path: Path) -> dict[str, str]:
    """Return the reusable comments by their abbreviation; empty if the file does not exist.

    Raises:
        TableError: the columns `short` and `comment` are missing.
    """
    if not path.exists():
        return {}
    table = read_table(path)
    short, comment = table.column("short"), table.column("comment")
    if short is None or comment is None:
        raise TableError(f"{printable(str(path))} needs the columns short and comment")
    return {row[short].strip().removeprefix("#"): row[comment].strip() for row in table.rows}


def _mark(
    table: TableFile, row: list[str], place: int, answer: WrittenAnswer, short: dict[str, str], number: int
) -> Mark:
    points = number_in(row[place]) if row[place].strip() else None
    if row[place].strip() and (points is None or not 0 <= points <= answer.question.max_points):
        raise TableError(
            f"{table.name}, row {number}: {printable(row[place])} is not a number of points from 0 to "
            f"{answer.question.max_points:g}"
        )
    comment = table.column("comment")
    written = row[comment].strip() if comment is not None else ""
    if unknown := [word for word in SHORT.findall(written) if word not in short]:
        raise TableError(f"{table.name}, row {number}: no comment is called #{unknown[0]}. Add it to comments.csv")
    plain = written[1:] if written.startswith("'") and written[1:2] in "=+-@" else written
    return Mark(points, SHORT.sub(lambda found: short[found[1]], plain))
