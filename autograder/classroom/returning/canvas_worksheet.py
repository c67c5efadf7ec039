"""Canvas' exported gradebook: a header, an optional row on posting, a row of points, then the students.

Source: lib/gradebook_exporter.rb and lib/gradebook_importer.rb of instructure/canvas-lms. The heading of an
assignment's column ends with its id in parentheses; students are identified by ID. `EX` marks an excused student, and
`N/A` one to whom the assignment was not given.
"""

from __future__ import annotations

import re

from autograder.classroom.returning.worksheet import GradeColumn, WorksheetForm, choose_column, without_id
from autograder.classroom.table_file import TableError, TableFile

TITLE = r"\s*\(\d+\)$"
TOTALS = re.compile(r"(Current|Final|Override|Unposted) (Score|Points|Grade)")
KEEP = frozenset({"EX", "N/A"})


def _grade_column(table: TableFile, assignment: str, wanted: str | None) -> GradeColumn:
    if table.column("ID") is None or table.column("Section", "SIS Login ID") is None:
        raise TableError(f"{table.name} is not Canvas' gradebook: it has no columns ID and Section. Export it again")
    titles = {
        number: without_id(name, TITLE)
        for number, name in enumerate(table.header)
        if re.search(TITLE, name) and not TOTALS.search(name)
    }
    number = choose_column(table, titles, assignment, wanted)
    # The row's words are translated, so it is found by its content: the first row without an ID and with a number.
    ids = table.column("ID") or 1
    points = next(
        (row[number] for row in table.rows if not row[ids].strip() and re.match(r"\s*[\d.,]+\s*$", row[number])), ""
    )
    return GradeColumn(number, titles[number], points.strip(), KEEP, "EX")


def _feedback_name(student: str, known: dict[str, str], name: str, upload_name: str) -> str:
    return f"{upload_name}_" if upload_name else ""


CANVAS_FORM = WorksheetForm("canvas", _grade_column, _feedback_name)
