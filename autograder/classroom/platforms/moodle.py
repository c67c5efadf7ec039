"""Moodle's "Download all submissions": a folder, or file names with a common prefix, for each participant.

Source: mod/assign/locallib.php and mod/assign/feedback/file/importziplib.php of moodle/moodle. Names begin with
`[Group-]Full name_N_assignsubmission_file/…` since 4.1, before that with another `_` at the end; without folders, the
file names have this prefix. They begin with `Participant_N_…` if marking is anonymous. A team's names contain the
team's name and number; the number is missing for people without a team (classes/downloader.php). Otherwise N is the
participant's number in this assignment, not the user's. `_` in a name replaces a space. Times are in the grading
worksheet, not in the zip.

The columns of that worksheet are recognized by their contents because the headings are translated (source:
mod/assign/gradingtable.php, mod/assign/feedback/offline/importgradeslib.php and
mod/assign/feedback/file/importziplib.php of moodle/moodle). The column of maximum grades follows the column of grades
and has the same value in all rows. Feedback files are mapped back by the second part of a folder's name, the
participant's number.
"""

from __future__ import annotations

import datetime
import re

from autograder.classroom.collect.download import DownloadedSubmission, NamedFile, platform_of_names
from autograder.classroom.roster import PARTICIPANT
from autograder.classroom.table_file import TableFile
from autograder.classroom.worksheet import GradeColumn, WorksheetForm, number_in
from autograder.errors import InputError

MAXIMUM = ("Maximum grade", "Maximum Grade")
FIRST = 2  # the first columns identify the student


def _grade_column(table: TableFile, assignment: str, wanted: str | None) -> GradeColumn:
    if not table.rows or not all(PARTICIPANT.fullmatch(row[0].strip()) for row in table.rows):
        raise InputError(
            f"{table.name} is not Moodle's grading worksheet: its first column has no identifiers such as “Participant 17”. "
            "Download the grading worksheet of this assignment"
        )
    if wanted is not None:
        if (number := table.column(wanted)) is None:
            raise InputError(f"{table.name} has no column {wanted!r}")
        return GradeColumn(number, table.header[number])
    maximum = table.column(*MAXIMUM)
    if maximum is None and (number := table.column("Grade")) is not None:
        return GradeColumn(number, table.header[number])  # the teacher has removed the column of maximum grades
    if maximum is None:
        maximum = next((number for number in range(FIRST, len(table.header)) if _is_maximum(table, number)), None)
    if maximum is None or maximum < FIRST:
        raise InputError(
            f"{table.name} has no column for maximum grades, perhaps because the assignment is graded on a scale. Name the "
            "column of the grades with --column"
        )
    return GradeColumn(maximum - 1, table.header[maximum - 1], table.rows[0][maximum].strip())


def _is_maximum(table: TableFile, number: int) -> bool:
    cells = {row[number].strip() for row in table.rows}
    before = [row[number - 1].strip() for row in table.rows]
    is_grade = all(cell in ("", "-") or number_in(cell) is not None for cell in before)
    return len(cells) == 1 and number_in(next(iter(cells))) is not None and is_grade


def _feedback_name(student: str, identifiers: dict[str, str], name: str, upload_name: str) -> str:
    if "participant" not in identifiers:
        return ""
    shown = name.replace("_", " ").replace("/", " ").strip() or "Participant"
    return f"{shown}_{identifiers['participant']}_assignfeedback_file/"


MOODLE_FORM = WorksheetForm("moodle", _grade_column, _feedback_name)


NAME = re.compile(
    r"(?:.*/)?(?P<name>[^_/]+)(?:_(?P<number>\d+))?_assignsubmission_(?P<kind>[a-z]+)_?(?:/(?P<inside>.+)|(?P<suffix>[^/]*))"
)


def _submission(key: str, files: list[NamedFile], zone: datetime.tzinfo) -> DownloadedSubmission:
    name, number = files[0][0]["name"], files[0][0]["number"] or ""
    return DownloadedSubmission(
        key=key,
        name=name,
        identities=({"participant": number, "words": name, "words without group": name.partition("-")[2]},),
        files={parts["inside"] or parts["suffix"] or "online text": file for parts, file in files},
    )


MOODLE = platform_of_names("moodle", "Moodle's", NAME, lambda parts: parts["number"] or parts["name"], _submission)
