"""Any other table with a column that identifies the student, and one for grades."""

from __future__ import annotations

from autograder.classroom.returning.worksheet import GradeColumn, WorksheetForm, choose_column
from autograder.classroom.table_file import TableFile

TITLES = ("grade", "points", "score")


def _grade_column(table: TableFile, assignment: str, wanted: str | None) -> GradeColumn:
    own = {number: name for number, name in enumerate(table.header) if name.casefold() in TITLES}
    titles = dict(enumerate(table.header)) if wanted or not own else own
    number = choose_column(table, titles, assignment, wanted)
    return GradeColumn(number, table.header[number])


def _feedback_name(student: str, known: dict[str, str], name: str, upload_name: str) -> str:
    return f"{student}/"


PLAIN_FORM = WorksheetForm("csv", _grade_column, _feedback_name)
