"""Blackboard's "Assignment File Download": one folder of files, whose names contain the assignment, the user and the attempt.

Sources: the README of kwurst/bb-file-cleanup and nbgrader's help on zip_collect (nbgrader/plugins/zipcollect.py,
0.9.6): `{assignment}_{username}_attempt_{YYYY-MM-DD-HH-MM-SS}_{file}`, and a `.txt` without a file name for each
attempt, whose first line is `Name: {name} ({username})` (the reader of CodeGra-de/CodeGra.de). A download may contain
all attempts of a person. The times are those of the server.

The worksheet is the "Work Offline" file: commas or tabs, UTF-8 or UTF-16; the heading of a grade column ends with `|` and
its id. Headings as public programs read them: `Title [Total Pts: 10 Score] |1281892`. The keys are the username and the
column's id. Blackboard does not import feedback, so the folders in our zip are named for the people who hand it out.
"""

from __future__ import annotations

import datetime
import re

from autograder.classroom.collect.download import (
    DownloadedFile,
    DownloadedSubmission,
    DownloadError,
    NamedFile,
    platform_of_names,
)
from autograder.classroom.table_file import TableFile
from autograder.classroom.worksheet import GradeColumn, WorksheetForm, choose_column
from autograder.errors import InputError

COLUMN = re.compile(r"^(?P<title>.*?)\s*(?:\[Total Pts:(?P<kind>[^\]]*)\]\s*(?:\|\d+)?|\|\d+)$")


def _grade_column(table: TableFile, assignment: str, wanted: str | None) -> GradeColumn:
    if table.column("Username") is None:
        raise InputError(f"{table.name} is not Blackboard's grade file: it has no column Username. Download it again")
    columns = {number: match for number, name in enumerate(table.header) if (match := COLUMN.match(name))}
    titles = {
        number: re.sub(r"\s*\[.*$", "", match["title"]).strip()
        for number, match in columns.items()
        if not re.search(r"\bup to\b", match["kind"] or "")  # a total, which Blackboard computes
    }
    number = choose_column(table, titles, assignment, wanted)
    points = re.search(r"[\d.,]+", columns[number]["kind"] or "")
    return GradeColumn(number, titles[number], points[0] if points else "")


BLACKBOARD_FORM = WorksheetForm(
    "blackboard", _grade_column, lambda student, known, *_: f"{known.get('login') or student}/"
)


NAME = re.compile(r"(?s:.*/)?(?P<before>[^/\n]+)_attempt_(?P<time>\d{4}(?:-\d\d){5})(?:_(?P<file>[^/\n]+)|\.txt)")
WHO = re.compile(r"[^:\n]+: *(?P<name>[^\n]+?) \((?P<login>[^()\s]+)\)\s*(?:\n|$)")
ABOUT = ""  # replaces the file name of the text about an attempt
LONGEST_TEXT = 2**20
TIME = "%Y-%m-%d-%H-%M-%S"


def _submission(_: str, named: list[NamedFile], zone: datetime.tzinfo) -> DownloadedSubmission:
    first = named[0][0]
    files = {parts["file"] or ABOUT: file for parts, file in named}
    about = files.pop(ABOUT, None)
    login, name = _who(about) if about else ("", "")
    # The assignment and the username may contain underscores: the text or the roster decides which suffix is the username.
    words = first["before"].split("_")
    ends = ["_".join(words[number:]) for number in range(len(words) - 1, 0, -1)] or [first["before"]]
    usernames = {f"login with {number} underscores": end for number, end in enumerate(ends)}
    return DownloadedSubmission(
        key=first["before"],
        name=name,
        identities=({"login": login or ends[0]} | usernames,),
        files=files,
        handed_in=_time(first["time"], zone),
    )


def _who(about: DownloadedFile) -> tuple[str, str]:
    """Return the username and the name in an attempt's text file; ("", "") if it has another format."""
    try:
        text = about.read(LONGEST_TEXT).decode("utf-8-sig", errors="replace")
    except DownloadError:
        return "", ""
    person = WHO.match(text)
    return (person["login"], person["name"]) if person else ("", "")


def _time(text: str, zone: datetime.tzinfo) -> datetime.datetime | None:
    try:
        return datetime.datetime.strptime(text, TIME).replace(tzinfo=zone)
    except ValueError:
        return None


BLACKBOARD = platform_of_names(
    "blackboard", "Blackboard's", NAME, lambda parts: f"{parts['before']}_attempt_{parts['time']}", _submission
)
