"""A grade that comes from another process is checked before it is written: a submission may have taken that process over."""

import math

import msgspec
import nbformat
import pytest

from autograder.grade.submission.notebook_grade import CellGrade, NotebookGrade
from autograder.grade.submission.submission_run import unreadable
from autograder.grade.where import grading_job
from autograder.grade.where.grading_job import JobResult, validated
from tests.grade import small_course

SOURCE = small_course.source(
    small_course.answer("f", "def f():\n    return 1"), small_course.graded_cell("test_f", "assert f() == 1", 2)
)
CELL = CellGrade(status="correct", points=2.0, max_points=2.0)
NOTEBOOK = nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")]))
GRADE = NotebookGrade(cells={"test_f": CELL}, comments={"f": None}, notebook=NOTEBOOK)


def received(**changes) -> JobResult:
    """Return a result as it arrives: encoded and decoded again."""
    result = JobResult("ann", "small", msgspec.structs.replace(GRADE, **changes))
    return msgspec.msgpack.decode(msgspec.msgpack.encode(result), type=JobResult)


def cells(**changes) -> dict[str, dict[str, CellGrade]]:
    """Return the change to a grade in which its one cell has these values."""
    return {"cells": {"test_f": msgspec.structs.replace(CELL, **changes)}}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        cells(points=0.0),
        cells(points=None, status="for a person"),
        {"comments": {"f": "No response."}, "notes": ("one",), "seconds": 1.5},
    ],
)
def test_a_grade_of_the_source_is_taken(changes):
    """With full points, no points, or points that a person has to give."""
    assert received(**changes) == validated(received(**changes), SOURCE)


def test_a_failure_and_an_unreadable_submission_are_taken():
    """They have no grade, or no points."""
    failed = JobResult("ann", "small", None, "the grader failed")
    assert failed == validated(failed, SOURCE)
    result = JobResult("ann", "small", unreadable(SOURCE, "no file"))
    assert result == validated(result, SOURCE)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cells": {}}, "other cells"),
        ({"cells": {"test_f": CELL, "test_g": CELL}}, "other cells"),
        ({"comments": {"g": None}}, "other cells"),
        (cells(points=2.5), "its maximum is 2.0"),
        (cells(points=-1.0), "its maximum is 2.0"),
        (cells(points=math.nan), "its maximum is 2.0"),
        (cells(points=math.inf), "its maximum is 2.0"),
        (cells(points=9.0, max_points=9.0), "its maximum is 2.0"),
        (cells(max_points=math.nan), "its maximum is 2.0"),
        (cells(seconds=math.nan), "not a number of seconds"),
        ({"seconds": -1.0}, "not a number of seconds"),
        ({"notes": ("",) * 10_001}, "too many notes"),
        ({"ended": "x" * 100_001}, "a text of more than"),
        (cells(reason="x" * 100_001), "a text of more than"),
        ({"comments": {"f": "x" * 100_001}}, "a text of more than"),
        ({"notebook": ""}, "cannot be read"),
        ({"notebook": "{}"}, "cannot be read"),
        ({"notebook": "[" * 100_000}, "cannot be read"),
        ({"notebook": NOTEBOOK.replace('"1"', "1")}, "cannot be read"),
    ],
)
def test_anything_else_is_refused_with_a_reason(changes, said):
    """Other cells, points beyond the maximum, sizes beyond every real grade, and what is not a notebook."""
    with pytest.raises(ValueError, match=said):
        validated(received(**changes), SOURCE)


def test_a_notebook_that_is_too_large_is_refused(monkeypatch):
    """Before it is parsed."""
    monkeypatch.setattr(grading_job, "LARGEST_NOTEBOOK", 10)
    with pytest.raises(ValueError, match="MiB"):
        validated(received(), SOURCE)


def test_a_failure_that_is_too_long_is_refused():
    """Its text goes to the teacher's screen."""
    with pytest.raises(ValueError, match="a text of more than"):
        validated(JobResult("ann", "small", None, "x" * 100_001), SOURCE)
