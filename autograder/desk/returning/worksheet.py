"""A platform's own worksheet: where its rows say who, where grades go, and how it writes numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from autograder.desk.collect.notebook_names import like_name
from autograder.desk.table_file import TableError, TableFile
from autograder.printable import printable

LONGEST_LIST = 8


class GradeColumn(NamedTuple):
    """Where a worksheet has the grades of the assignment.

    Attributes:
        number: the column's.
        title: as the platform shows it.
        max_points: of the platform, as the worksheet writes them; "" if it does not say.
        keep: texts in a cell that only the platform or a teacher sets, such as "EX".
        excused: what to write for a student who is excused; None leaves the cell as it is.
    """

    number: int
    title: str
    max_points: str = ""
    keep: frozenset[str] = frozenset()
    excused: str | None = None

    def written(self, points: float) -> str:
        """Returns the points as this worksheet writes numbers: two decimals, and a comma where it has commas."""
        text = f"{points:.2f}"
        return text.replace(".", ",") if "," in self.max_points and "." not in self.max_points else text


class WorksheetForm(NamedTuple):
    """How one platform's worksheet is read.

    Attributes:
        name: as the option `--to` has it.
        grade_column: finds the column of an assignment, or the one of the name that a teacher gave.
        feedback_name: the beginning of a feedback file's path in the zip for: the student's id, what the worksheet's row says
            of the student, and the name that was kept from collecting; "" if the platform could not map it back.
    """

    name: str
    grade_column: Callable[[TableFile, str, str | None], GradeColumn]
    feedback_name: Callable[[str, dict[str, str], str, str], str]


def number_in(text: str) -> float | None:
    """Returns the number that a cell says, with a point or a comma; None if it says none."""
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        return None


def choose_column(table: TableFile, titles: dict[int, str], assignment: str, wanted: str | None) -> int:
    """Returns the column with the name that a teacher gave, else the one named like the assignment, else the only one.

    Args:
        table: the worksheet.
        titles: of the columns that may hold grades.
        assignment: its folder's name.
        wanted: the title or the whole header that a teacher gave.

    Raises:
        TableError: there is no such column, or more than one might be meant.
    """
    names = (wanted or assignment).casefold(), like_name(wanted or assignment)
    exact = [
        number for number, title in titles.items() if names[0] in (title.casefold(), table.header[number].casefold())
    ]
    like = [number for number, title in titles.items() if like_name(title) == names[1]]
    for found in (exact, like, [] if wanted else list(titles)):
        if len(found) == 1:
            return found[0]
    listed = ", ".join(printable(title) for title in list(titles.values())[:LONGEST_LIST]) or "none"
    raise TableError(
        f"{table.name} has no column of {printable(wanted or assignment)}. Name it with --column; columns for grades: {listed}"
    )


def without_id(header: str, pattern: str) -> str:
    """Returns a column's title without what the platform adds to it."""
    return re.sub(pattern, "", header).strip()
