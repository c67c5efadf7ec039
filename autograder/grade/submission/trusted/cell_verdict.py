"""What a test's run says of the answer: status, points and reason."""

from __future__ import annotations

import math
import traceback
from typing import Any

from autograder.check.message import NotAttempted, Unsolved
from autograder.grade.sandbox.shell import CellTimeoutError
from autograder.grade.submission.notebook_grade import CellGrade, Status
from autograder.grade.submission.stand_ins.refusals import LearnerError
from autograder.grade.submission.teacher.source_cells import SourceCell
from autograder.locale.translations import in_english

LONGEST_REASON = 4000
BEGIN, END = "BEGIN HIDDEN TESTS", "END HIDDEN TESTS"  # nbgrader's defaults (ClearHiddenTests, 0.9.6)


def verdict(cell: SourceCell, error: BaseException | None, value: Any, seconds: float) -> CellGrade:
    """Returns the grade of a test that ended with an error, or with the value of its last expression."""
    most = cell.points
    if error is not None:
        status: Status = "not attempted" if isinstance(error, NotAttempted) else "incorrect"
        status = "timed out" if isinstance(error, CellTimeoutError) else status
        told = isinstance(error, (Unsolved, LearnerError))  # its text is the whole sentence
        reason = str(error) if told else "".join(traceback.format_exception_only(error)).strip()
        hidden = cell.hides and _in_hidden_part(cell.text, error)
        return CellGrade(
            status=status,
            points=0.0,
            max_points=most,
            reason=reason[:LONGEST_REASON],
            seconds=seconds,
            hidden=hidden,
            process="two",
            line=_last_line(error),
        )
    points, reason = _partial_credit(value, most)
    status = "correct" if points == most else "partly" if points else "incorrect"
    return CellGrade(
        status=status, points=points, max_points=most, reason=reason, seconds=seconds, hidden=cell.hides, process="two"
    )


def _partial_credit(value: Any, most: float) -> tuple[float, str]:
    """Returns the points for the value of a test's last expression: a number is partial credit, as in nbgrader.

    nbgrader 0.9.6 (`nbgrader.utils.determine_grade`) gives full marks for nan and negative numbers, and raises for a number
    above the maximum; here these give none and the maximum.
    """
    if value is None or isinstance(value, (str, bytes)) or value is True:
        return most, ""
    if value is False:
        return 0.0, in_english("the test's last line is False")
    try:
        number = float(value)
    except Exception:  # noqa: BLE001 - it may be a stand-in, whose `__float__` is the learner's; or an integer of any size
        return most, ""
    if math.isnan(number) or number < 0:
        return 0.0, in_english(
            "the test's last line is {number}, which is not a number of points", number=f"{number:g}"
        )
    told = in_english("the test gave {number} of {most} points", number=f"{number:g}", most=f"{most:g}")
    return min(number, most), "" if number >= most else told


def _in_hidden_part(text: str, error: BaseException) -> bool:
    """Whether the statement that raised is in a hidden part of the test."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code.co_name == "<module>"]
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame in frames]
    if not lines:
        return True  # a test that does not even compile: show nothing of it
    before = text.splitlines()[: lines[-1]]
    marks = [BEGIN if BEGIN in line else END for line in before if BEGIN in line or END in line]
    return bool(marks) and marks[-1] == BEGIN


def _last_line(error: BaseException) -> int:
    """Returns the line of the test, or of a function in it, at which an error came up; 0 if it did not even compile."""
    frames = list(traceback.walk_tb(error.__traceback__))
    cell = next((frame.f_code.co_filename for frame, _ in frames if frame.f_code.co_name == "<module>"), "")
    return next((line for frame, line in reversed(frames) if frame.f_code.co_filename == cell), 0)


def error_output(error: Unsolved) -> dict[str, Any]:
    """Returns the output to show for an error that is meant for the learner, without a traceback."""
    lines = str(error).splitlines()
    return {"output_type": "error", "ename": type(error).__name__, "evalue": str(error), "traceback": lines}
