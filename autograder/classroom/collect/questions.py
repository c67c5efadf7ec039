"""The open questions of `collect`: written as a table that a teacher fills in, and read by the next run."""

from __future__ import annotations

import csv
import datetime
import io
from pathlib import Path
from typing import NamedTuple

from autograder.classroom.table_file import TableError, read_table
from autograder.classroom.written_time import parse_time
from autograder.course.file_replacement import replace_file
from autograder.grade.batch.csv_export import harmless_cell
from autograder.printable import printable

FILE = "to_match.csv"
COLUMNS = ("hand_in", "file", "person", "why", "student", "notebook", "handed_in", "submission")
NONE = "-"  # the answer for "ignore this submission", or "not a notebook"


class MatchQuestion(NamedTuple):
    """One row: a submission, why it could not be matched, and the columns that a teacher fills in.

    Attributes:
        hand_in: the platform's name for the person.
        file: the path in the download; "" for the whole submission.
        person: the name, as far as it is known.
        why: the reason.
        student: to fill in: nbgrader's id, or "-" to ignore the submission.
        notebook: to fill in: the notebook's name, or "-" if the file is not one.
        handed_in: to fill in: the time of submission, in the course's time zone.
        submission: the platform's number of the submission whose time is asked for; "" for every submission of the person.
    """

    hand_in: str
    file: str
    person: str
    why: str
    student: str = ""
    notebook: str = ""
    handed_in: str = ""
    submission: str = ""


class Answers(NamedTuple):
    """The answers of a teacher: students by the person's key, notebooks by the file's path, times by key and submission."""

    students: dict[str, str]
    notebooks: dict[str, str]
    times: dict[tuple[str, str], datetime.datetime]
    rows: list[MatchQuestion]

    def time(self, key: str, submission: str) -> datetime.datetime | None:
        """Return the time of a submission; the time of an earlier one of the same person is not valid for it."""
        return self.times.get((key, submission)) or self.times.get((key, ""))


def read_answers(folder: Path, zone: datetime.tzinfo) -> Answers:
    """Return the answers of a teacher; without a table, no answers.

    Raises:
        TableError: a column is missing, or a time cannot be parsed.
    """
    path = folder / FILE
    if not path.exists():
        return Answers({}, {}, {}, [])
    table = read_table(path)
    if missing := [name for name in COLUMNS[:-1] if table.column(name) is None]:
        raise TableError(f"{printable(str(path))} has no column {missing[0]!r}. Move it away, and collect again")
    places = {name: place for name in COLUMNS if (place := table.column(name)) is not None}
    rows = [MatchQuestion(**{name: _plain(row[place]) for name, place in places.items()}) for row in table.rows]
    times = {(row.hand_in, row.submission): _time(row, path, zone) for row in rows if row.handed_in}
    return Answers(
        {row.hand_in: row.student for row in rows if row.student},
        {row.file: row.notebook.removesuffix(".ipynb") for row in rows if row.notebook},
        times,
        rows,
    )


def write_questions(folder: Path, questions: list[MatchQuestion], answers: Answers, asked: set[str]) -> Path | None:
    """Write the table, earlier rows first, and return its path; delete it if it would be empty.

    Open questions about the people in `asked`, those of this download, are replaced; questions of other downloads stay.

    Return None if there are no questions.
    """
    path = folder / FILE
    kept = [row for row in answers.rows if row.student or row.notebook or row.handed_in or row.hand_in not in asked]
    known = {(row.hand_in, row.file, row.submission) for row in kept}
    rows = [*kept, *(row for row in questions if (row.hand_in, row.file, row.submission) not in known)]
    if not rows:
        path.unlink(missing_ok=True)
        return None
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows([harmless_cell(value) for value in row] for row in rows)
    replace_file(path, b"\xef\xbb\xbf" + text.getvalue().encode())  # begins with a byte order mark, for spreadsheets
    return path if questions else None


def _plain(text: str) -> str:
    """Return the text without the apostrophe that prevents its evaluation as a formula."""
    return text[1:].strip() if text.startswith("'") and text[1:2] in "=+-@" else text.strip()


def _time(row: MatchQuestion, path: Path, zone: datetime.tzinfo) -> datetime.datetime:
    time = parse_time(row.handed_in, zone)
    if time is None:
        raise TableError(
            f"{printable(str(path))}: {printable(row.handed_in)} is not a valid time; write it as 2026-10-03 14:10"
        )
    return time
