"""`nbgrader export` to a CSV file that all programs read in the same way, and in which names cannot be formulas."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterable
from typing import Any

from nbgrader.api import Assignment, Gradebook, MissingEntry, Student
from nbgrader.plugins import CsvExportPlugin
from traitlets.config import Config

# The columns of CsvExportPlugin (nbgrader/plugins/export.py, 0.9.6).
COLUMNS = [
    *("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email"),
    *("raw_score", "late_submission_penalty", "score", "max_score"),
]
# The characters with which a formula may begin in a spreadsheet (OWASP, "CSV Injection"); in some languages also their
# full-width forms.
LIKE_FORMULA = re.compile("'*[=+@＝＋－＠-]")
ESCAPED = re.compile(r"^ | $|\\(?=[xuU])")
CODE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U(00(?:0[0-9a-f]|10)[0-9a-f]{4}))")


class QuotedCsvExport(CsvExportPlugin):
    """Writes the columns of nbgrader's own exporter, which (0.9.6) writes names with commas and formulas unchanged."""

    def export(self, gradebook: Gradebook) -> None:
        """Write a row for each assignment and student to the file `to`, or to grades.csv."""
        destination = self.to or "grades.csv"
        self.log.info("Exporting grades to %s", destination)
        with open(destination, "w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            table.writeheader()
            names, ids = set(map(str, self.assignment)), set(map(str, self.student))
            for assignment, student in itertools.product(gradebook.assignments, gradebook.students):
                if (not names or assignment.name in names) and (not ids or student.id in ids):
                    row = _row(gradebook, assignment, student)
                    table.writerow({name: harmless_cell(value) for name, value in row.items()})


def configure_export(config: Config) -> None:
    """Make `nbgrader export` write such files; for `nbgrader_config.py`."""
    config.ExportApp.plugin_class = QuotedCsvExport


def _row(gradebook: Gradebook, assignment: Assignment, student: Student) -> dict[str, Any]:
    about = {"assignment": assignment.name, "duedate": assignment.duedate, "max_score": assignment.max_score}
    row = dict.fromkeys(COLUMNS, 0.0) | about | {"timestamp": None, "student_id": student.id}
    row |= {name: getattr(student, name) for name in ("last_name", "first_name", "email")}
    try:
        submission = gradebook.find_submission(assignment.name, student.id)
    except MissingEntry:  # nothing was submitted
        return row
    penalty = submission.late_submission_penalty
    return row | {
        "timestamp": submission.timestamp,
        "raw_score": submission.score,
        "late_submission_penalty": penalty,
        "score": max(0.0, submission.score - penalty),
    }


def spreadsheet(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> bytes:
    """Return a CSV file that begins with a byte order mark, by which spreadsheets recognize UTF-8."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    table.writerows([harmless_cell(value) for value in row] for row in rows)
    return b"\xef\xbb\xbf" + text.getvalue().encode()


def harmless_cell(value: Any) -> Any:
    """Return a value as text that spreadsheets do not compute, in which every character is visible, for one cell.

    A text that begins like a formula, also after apostrophes, gets an apostrophe before it. Spaces at its ends and
    characters without a form are written as `\\u0020`, and so is a backslash before x, u or U.
    """
    if not isinstance(value, str):
        return "" if value is None else str(value)
    escaped = ESCAPED.sub(lambda match: _escape(match[0]), value)
    shown = "".join(letter if letter.isprintable() else _escape(letter) for letter in escaped)
    return f"'{shown}" if LIKE_FORMULA.match(shown) else shown


def plain_cell(text: str) -> str:
    """Return the value of a cell that `harmless_cell` wrote: its inverse."""
    plain = text[1:] if text.startswith("'") and LIKE_FORMULA.match(text) else text
    return CODE.sub(lambda match: chr(int(match[1] or match[2] or match[3], 16)), plain)


def _escape(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"
