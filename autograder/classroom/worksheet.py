"""The format of a platform's worksheet (identifiers, grade column, format of numbers), and the zip of the feedback pages.

`PLAIN_FORM` is any other table with a column that identifies the student, and one for grades.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from autograder.classroom.collect.submission_files import like_name
from autograder.classroom.table_file import TableFile
from autograder.errors import InputError, printable, printable_list
from autograder.grade.batch.course_folders import AssignmentFolders
from autograder.grade.submission.submitted_files import UnreadableSubmission, plain_file

NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d{1,2})?")
LARGEST_PAGE = 64 * 2**20
WHEN = (1980, 1, 1, 0, 0, 0)  # a fixed time, so that the same pages give the same zip


def feedback_pages(folders: AssignmentFolders, student: str) -> dict[str, bytes]:
    """Return a student's feedback pages by their names; empty without feedback. Submitted files are not included."""
    pages = {}
    for notebook in folders.notebooks():
        name = f"{notebook.stem}.html"
        try:
            pages[name] = plain_file(folders.feedback(student) / name, LARGEST_PAGE)
        except (OSError, UnreadableSubmission):
            continue  # nbgrader writes plain files there; ignore anything else
    return pages


def zip_of(files: Mapping[str, bytes], programs: Collection[str] = ()) -> bytes:
    """Return a zip of these files, whose names are UTF-8; `programs` are the names of executable files."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, WHEN)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o755 if name in programs else 0o644) << 16
            archive.writestr(info, files[name])
    return data.getvalue()


LONGEST_LIST = 8


@dataclass(frozen=True)
class GradeColumn:
    """The column of an assignment's grades in a worksheet."""

    number: int  # the index of the column
    title: str  # the title on the platform
    max_points: str = ""  # the platform's maximum, as the worksheet writes it; "" if it does not contain one
    keep: frozenset[str] = frozenset()  # cell texts that only the platform or a teacher sets, such as "EX"
    excused: str | None = None  # the text for an excused student; None leaves the cell unchanged

    def written(self, points: float) -> str:
        """Return the points in the worksheet's format: two decimals, with a comma if the worksheet uses commas."""
        text = f"{points:.2f}"
        return text.replace(".", ",") if "," in self.max_points and "." not in self.max_points else text


@dataclass(frozen=True)
class WorksheetForm:
    """The reader for one platform's worksheet."""

    name: str  # the platform's name in the option `--to`
    # finds the column of an assignment, or of the name that a teacher gave
    grade_column: Callable[[TableFile, str, str | None], GradeColumn]
    # takes the student's id, the identifiers and the name in the worksheet's row, and the upload name from `collect`;
    # returns the beginning of a feedback file's path in the zip, "" if the platform could not map it back
    feedback_name: Callable[[str, dict[str, str], str, str], str]


def number_in(text: str) -> float | None:
    """Return the number in a cell, with a point or a comma; None for other text, such as "nan" or "1_0"."""
    return float(text.strip().replace(",", ".")) if NUMBER.fullmatch(text.strip()) else None


def choose_column(table: TableFile, titles: dict[int, str], assignment: str, wanted: str | None) -> int:
    """Return the column with the name that a teacher gave, else the one named like the assignment, else the only one.

    `titles` contains the titles of the columns that may contain grades, by index; `wanted` is a title or the whole
    header.

    Raises:
        InputError: such a column does not exist, or several match.
    """
    names = (wanted or assignment).casefold(), like_name(wanted or assignment)
    exact = [
        number for number, title in titles.items() if names[0] in (title.casefold(), table.header[number].casefold())
    ]
    like = [number for number, title in titles.items() if like_name(title) == names[1]]
    for columns in (exact, like, [] if wanted else list(titles)):
        if len(columns) == 1:
            return columns[0]
    listed = printable_list(list(titles.values()), LONGEST_LIST) or "none"
    raise InputError(
        f"{table.name} has no column of {printable(wanted or assignment)}. Name it with --column; columns for grades: {listed}"
    )


TITLES = ("grade", "points", "score")


def _grade_column(table: TableFile, assignment: str, wanted: str | None) -> GradeColumn:
    titled = {number: name for number, name in enumerate(table.header) if name.casefold() in TITLES}
    titles = dict(enumerate(table.header)) if wanted or not titled else titled
    number = choose_column(table, titles, assignment, wanted)
    return GradeColumn(number, table.header[number])


PLAIN_FORM = WorksheetForm("csv", _grade_column, lambda student, *_: f"{student}/")
