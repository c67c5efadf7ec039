"""What a rehearsal found of one test: the process that judges it, and what a teacher should look at."""

from __future__ import annotations

from textwrap import shorten
from typing import Literal

import msgspec

from autograder.grade.submission.notebook_grade import CellGrade
from autograder.grade.submission.one_process import STDERR
from autograder.grade.submission.teacher.source import AssignmentSource, SourceCell

Judged = Literal["two", "one", "nobody"]
LONGEST_QUOTE = 400
LONGEST_LINE = 120
NOT_JUDGED = "this test could not be judged: "
MISSING = "No module named"
COUNTS = 'write {"autograder": {"counts": true}} into its metadata'


class RehearsedCell(msgspec.Struct, frozen=True, kw_only=True):
    """One test.

    Attributes:
        id: its grade_id.
        max_points: what it is worth.
        model: the points of the model answers, None if they could not be judged, or if the source has none for this test.
        untouched: the points of the notebook as it is handed out.
        process: where it is judged: "two" processes, "one", or it marks "nobody".
        remark: what to look at, in one sentence with the choice; "" if nothing.
    """

    id: str
    max_points: float
    model: float | None
    untouched: float | None
    process: Judged
    remark: str = ""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """The grades of one test: of the model answers and of the notebook as handed out, in two processes and in one."""

    model_two: CellGrade
    model_one: CellGrade
    untouched_two: CellGrade
    untouched_one: CellGrade


def rehearsed(source: AssignmentSource, cell: SourceCell, tried: Tried, *, forbid_one_process: bool) -> RehearsedCell:
    """Returns where a test is judged, and why.

    Two processes are right if the model answer gets there what it gets in one, and so does the notebook as handed out. A test
    that the model answer fails in both marks nobody, unless the teacher has said that it counts.
    """
    wanted, reason = _wanted(source, cell, tried)
    allowed: Judged = wanted
    if wanted == "one" and (forbid_one_process or cell.process == "two"):
        allowed, reason = "nobody", f"{reason}, and it may not be judged in one process: repair the test, or allow it"
    elif wanted == "one" and cell.process != "one":
        reason += ": repair the test, or leave it to be judged in one process"
    elif cell.process == "one" and wanted == "two":
        allowed, reason = "one", ""
    model, untouched = _of(tried, "one" if allowed == "one" else "two")
    remarks = [reason] if reason and not (allowed == "one" == cell.process) else []
    if untouched.points:
        remarks.append("it gives points to the notebook as handed out: repair the test, unless that is meant")
    return RehearsedCell(
        id=cell.id,
        max_points=cell.points,
        model=model.points if model.points or source.has_model(cell) else None,
        untouched=untouched.points,
        process=allowed,
        remark="; ".join(remarks),
    )


def cell_as_judged(cell: RehearsedCell, judged: CellGrade) -> RehearsedCell:
    """Returns what is to be done with a test that is judged beside the answers while others are not.

    It may need what those do there, and then marks nobody.

    Args:
        cell: what the rehearsal of all tests in one process found.
        judged: the grade of its model answer when only some tests run there.
    """
    if (judged.points or 0.0) >= (cell.model or 0.0):
        return cell
    choice = "repair the test, or grade every test in one process with `--one-process`"
    remark = f"without the other tests in its process the model answer {_got(judged)}, so it marks nobody: {choice}"
    return msgspec.structs.replace(cell, process="nobody", remark=remark)


def _wanted(source: AssignmentSource, cell: SourceCell, tried: Tried) -> tuple[Judged, str]:
    same = _same(tried.model_two, tried.model_one) and _same(tried.untouched_two, tried.untouched_one)
    if _full(tried.model_two) and (same or _only_warned(tried)):
        return "two", ""
    if not _full(tried.model_two) and (tried.model_one.points or 0.0) > (tried.model_two.points or 0.0):
        return "one", f"in two processes the model answer {_got(tried.model_two, cell.text)}"
    if not _full(tried.model_two) and tried.model_two.points and same:
        return (
            "two",
            f"the model answer {_got(tried.model_two, cell.text)}: repair the answer or the test, unless that is meant",
        )
    if not _full(tried.model_two) and (cell.counts or not source.has_model(cell)):
        return "two" if tried.model_two.points is not None else "one", ""
    if not _full(tried.model_two):
        told = _telling(tried)
        first = "install the module for this Python, repair the test" if MISSING in told.reason else "repair it"
        return "nobody", f"its own model answer {_got(told, cell.text)}, so it marks nobody: {first}, or {COUNTS}"
    return "one", "the notebook as handed out gets other points in two processes than in one"


def _telling(tried: Tried) -> CellGrade:
    """Returns the grade whose reason says most: a missing module, or a teacher's cell that failed, or one process's error."""
    if MISSING in tried.model_one.reason or tried.model_two.points is not None:
        return tried.model_one
    return tried.model_two


def _only_warned(tried: Tried) -> bool:
    """Returns whether one process differs only by nbgrader's rule that text on stderr, a warning too, costs all points."""
    return tried.model_one.reason == STDERR and (tried.untouched_two.points or 0.0) <= (
        tried.untouched_one.points or 0.0
    )


def _of(tried: Tried, process: str) -> tuple[CellGrade, CellGrade]:
    return (tried.model_one, tried.untouched_one) if process == "one" else (tried.model_two, tried.untouched_two)


def _full(grade: CellGrade) -> bool:
    return grade.points == grade.max_points


def _same(one: CellGrade, other: CellGrade) -> bool:
    return one.points == other.points


def _got(grade: CellGrade, text: str = "") -> str:
    reason = shorten(grade.reason.removeprefix(NOT_JUDGED), LONGEST_QUOTE, placeholder=" ...")
    said = f" ({reason}{_place(grade, text)})" if reason else ""
    if grade.points is None:
        return f"cannot be judged{said}"
    return f"gets {grade.points:g} of {grade.max_points:g}{said}"


def _place(grade: CellGrade, text: str) -> str:
    """Returns the line of the test that ended it, which an `assert` without words does not say."""
    if not text or not grade.line:
        return ""
    line = shorten(text.splitlines()[grade.line - 1], LONGEST_LINE, placeholder=" ...")
    return f", in line {grade.line}: {line}"
