"""What grading one submission comes to: plain data that a worker hands to the one writer of the gradebook."""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["correct", "partly", "incorrect", "not attempted", "for a person", "not run"]


class CellGrade(msgspec.Struct, frozen=True, kw_only=True):
    """The grade of one cell.

    Attributes:
        points: None where a person has to decide.
        reason: why not all points were given, in the words the learner reads; "" where they were.
        seconds: how long the test took, with the learner's code in it.
        hidden: whether the reason comes from a hidden part of the test, so that feedback must not quote it.
    """

    status: Status
    points: float | None
    max_points: float
    reason: str = ""
    seconds: float = 0.0
    hidden: bool = False


class NotebookGrade(msgspec.Struct, frozen=True, kw_only=True):
    """One notebook of one submission.

    Attributes:
        cells: every cell of the source that gives points, by its id.
        comments: nbgrader's automatic comment for each answer and task that is there, by its id; None for none.
        notebook: the autograded notebook, as nbformat's JSON.
        ended: why the program was ended before its last cell, or could not be read; "" where all went well.
        notes: what else a teacher should know, one line each.
    """

    cells: dict[str, CellGrade]
    comments: dict[str, str | None]
    notebook: str
    ended: str = ""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def points(self) -> float:
        """The sum of what was given so far."""
        return sum(cell.points or 0.0 for cell in self.cells.values())
