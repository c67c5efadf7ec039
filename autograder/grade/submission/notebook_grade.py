"""The result of grading one notebook: plain data, which a grading process sends to the process that writes the gradebook."""

from __future__ import annotations

from typing import Literal

import msgspec

from autograder.locale.stored_messages import StoredMessage

Status = Literal["correct", "completed", "partly", "incorrect", "not attempted", "for a person", "timed out", "not run"]


class CellGrade(msgspec.Struct, frozen=True, kw_only=True):
    """The grade of one cell."""

    status: Status  # the result; "completed" is a wrong prediction that earns its points, because any prediction does
    points: float | None  # the points; None if the cell waits for manual grading
    max_points: float
    reason: str = ""  # the reason why the answer is not right, in words for the student; "" for a right one
    seconds: float = 0.0  # the duration of the test, including the calls of the student's code
    hidden: bool = False  # whether the reason comes from a hidden part of the test, so that feedback must not quote it
    # the line of the test at which it ended with an error outside the submission's process; 0 if it did not
    line: int = 0
    # for a test that ran, the way in which it was judged; "" for any other cell
    kind: Literal["", "declarative", "plain data", "in process"] = ""
    over_maximum: float | None = None  # the number on the test's last line if it is more than `max_points`; else None


class NotebookGrade(msgspec.Struct, frozen=True, kw_only=True):
    """The grade of one notebook of one submission."""

    cells: dict[str, CellGrade]  # every cell of the source that gives points, by its id
    # nbgrader's automatic comment on each answer and task in the submission, by the cell's id; None for no comment
    comments: dict[str, str | None]
    notebook: str  # the autograded notebook, as nbformat's JSON
    ended: str = ""  # the reason why the program ended before its last cell, or could not be read; "" if it finished
    notes: tuple[str, ...] = ()  # remarks for the teacher, one line each
    seconds: float = 0.0  # the duration of grading
    # the messages among `ended` and the reasons, by which feedback translates them
    messages: tuple[StoredMessage, ...] = ()

    @property
    def points(self) -> float:
        """The sum over all cells; a cell that waits for manual grading counts 0."""
        return sum(cell.points or 0.0 for cell in self.cells.values())
