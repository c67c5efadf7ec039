"""The result of grading one notebook: plain data, which a grading process sends to the process that writes the gradebook."""

from __future__ import annotations

from typing import Literal

import msgspec

from autograder.locale.stored_messages import StoredMessage

Status = Literal["correct", "completed", "partly", "incorrect", "not attempted", "for a person", "timed out", "not run"]


class CellGrade(msgspec.Struct, frozen=True, kw_only=True):
    """The grade of one cell.

    Attributes:
        status: the result; "completed" is a wrong prediction that earns its points, because any prediction does.
        points: the points; None if the cell waits for manual grading.
        max_points: the maximum.
        reason: the reason why the answer is not right, in words for the student; "" for a right one.
        seconds: the duration of the test, including the calls of the student's code.
        hidden: whether the reason comes from a hidden part of the test, so that feedback must not quote it.
        line: the line of the test at which it ended with an error outside the submission's process; 0 if it did not.
        kind: for a test that ran, the way in which it was judged; "" for any other cell.
        over_maximum: the number on the test's last line if it is more than `max_points`; else None.
    """

    status: Status
    points: float | None
    max_points: float
    reason: str = ""
    seconds: float = 0.0
    hidden: bool = False
    line: int = 0
    kind: Literal["", "declarative", "plain data", "in process"] = ""
    over_maximum: float | None = None


class NotebookGrade(msgspec.Struct, frozen=True, kw_only=True):
    """The grade of one notebook of one submission.

    Attributes:
        cells: every cell of the source that gives points, by its id.
        comments: nbgrader's automatic comment on each answer and task in the submission, by the cell's id; None for no
            comment.
        notebook: the autograded notebook, as nbformat's JSON.
        ended: the reason why the program ended before its last cell, or could not be read; "" if it finished.
        notes: remarks for the teacher, one line each.
        seconds: the duration of grading.
        messages: the messages among `ended` and the reasons, by which feedback translates them.
    """

    cells: dict[str, CellGrade]
    comments: dict[str, str | None]
    notebook: str
    ended: str = ""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    messages: tuple[StoredMessage, ...] = ()

    @property
    def points(self) -> float:
        """The sum over all cells; a cell that waits for manual grading counts 0."""
        return sum(cell.points or 0.0 for cell in self.cells.values())
