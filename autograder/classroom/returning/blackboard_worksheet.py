"""Blackboard's "Work Offline" file: commas or tabs, UTF-8 or UTF-16; the heading of a grade column ends with `|` and its id.

Headings as public programs read them: `Title [Total Pts: 10 Score] |1281892`. The keys are the username and the
column's id. Blackboard does not import feedback, so the folders in our zip are named for the people who hand it out.
"""

from __future__ import annotations

import re

from autograder.classroom.returning.worksheet import GradeColumn, WorksheetForm, choose_column, without_id
from autograder.classroom.table_file import TableError, TableFile

COLUMN = re.compile(r"^(?P<title>.*?)\s*(?:\[Total Pts:(?P<kind>[^\]]*)\]\s*(?:\|\d+)?|\|\d+)$")


def _grade_column(table: TableFile, assignment: str, wanted: str | None) -> GradeColumn:
    if table.column("Username") is None:
        raise TableError(f"{table.name} is not Blackboard's grade file: it has no column Username. Download it again")
    found = {number: match for number, name in enumerate(table.header) if (match := COLUMN.match(name))}
    titles = {
        number: without_id(match["title"], r"\s*\[.*$")
        for number, match in found.items()
        if not re.search(r"\bup to\b", match["kind"] or "")  # a total, which Blackboard computes
    }
    number = choose_column(table, titles, assignment, wanted)
    points = re.search(r"[\d.,]+", found[number]["kind"] or "")
    return GradeColumn(number, titles[number], points[0] if points else "")


def _feedback_name(student: str, known: dict[str, str], name: str, upload_name: str) -> str:
    return f"{known.get('login') or student}/"


BLACKBOARD_FORM = WorksheetForm("blackboard", _grade_column, _feedback_name)
