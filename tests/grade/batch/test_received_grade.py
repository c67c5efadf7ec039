"""A grade from another process is checked before it is written; a class graded by version 0.1.0 keeps its points."""

import csv
import json
import math
import sqlite3
import tarfile
from pathlib import Path

import msgspec
import nbformat
import pytest

from autograder import cli
from autograder.grade.backends import grading_job
from autograder.grade.backends.grading_job import JobResult, validated
from autograder.grade.batch.assignment import Options, grade_assignment
from autograder.grade.submission.notebook_grade import CellGrade, NotebookGrade
from autograder.grade.submission.submission_run import unreadable
from tests.commands import nbgrader
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


@pytest.mark.parametrize("changes", [
    {},
    cells(points=0.0),
    cells(points=None, status="for a person"),
    {"comments": {"f": "No response."}, "notes": ("one",), "seconds": 1.5},
])  # fmt: skip
def test_a_grade_of_the_source_is_taken(changes):
    """With full points, no points, or points that a person has to give."""
    assert received(**changes) == validated(received(**changes), SOURCE)


def test_a_failure_and_an_unreadable_submission_are_taken():
    """They have no grade, or no points."""
    failed = JobResult("ann", "small", None, "the grader failed")
    assert failed == validated(failed, SOURCE)
    result = JobResult("ann", "small", unreadable(SOURCE, "no file"))
    assert result == validated(result, SOURCE)


@pytest.mark.parametrize(("changes", "said"), [
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
])  # fmt: skip
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


ARCHIVE = Path(__file__).with_name("graded_before.tar.xz")
LESSON = "02_mutating_a_saved_tensor"
COURSES = {"new": "first", "lesson": LESSON}
# By hand: ann has 3 of the test and 2 of a person; ben 1 of a person, less a tenth of 5 for one day.
SCORES = {"new": {"ann": 5.0, "ben": 0.5, "cleo": 0.0}, "lesson": {"begun": 3.0, "model": 23.0, "wrong": 0.0}}


@pytest.fixture(params=COURSES)
def course(request, tmp_path):
    """One of the two courses, as version 0.1.0 left it."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / request.param


def scores(course: Path, capsys) -> dict[str, float]:
    """Return the scores that `autograder report` finds, by student."""
    assert 0 == cli.main(["report", COURSES[course.name], "--course", str(course), "--json"])
    return json.loads(capsys.readouterr().out)["report"]["scores"]


def exported(course: Path) -> dict[str, float]:
    """Return the scores that `nbgrader export` writes, by student."""
    nbgrader(course, "export")
    rows = csv.DictReader((course / "grades.csv").read_text("utf-8").splitlines())
    return {row["student_id"]: float(row["score"]) for row in rows}


def cells_of_regrade(course: Path) -> list[tuple]:
    """Return each student's points by cell, as nbgrader keeps them, read without nbgrader."""
    query = """SELECT a.student_id, c.name, g.auto_score, g.manual_score, g.needs_manual_grade FROM grade g
        JOIN base_cell c ON c.id = g.cell_id JOIN submitted_notebook n ON n.id = g.notebook_id
        JOIN submitted_assignment a ON a.id = n.assignment_id ORDER BY 1, 2"""
    connection = sqlite3.connect(course / "gradebook.db")
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


@pytest.mark.thorough
def test_earlier_records_are_read(course, capsys):
    """`report` and `nbgrader export` give the points of a class that was not graded again."""
    assert sorted(SCORES[course.name].values()) == scores(course, capsys)
    assert SCORES[course.name] == exported(course)


def test_grading_again_changes_no_points(bubblewrap, course, capsys):
    """After `grade --force` each cell has the points it had, and a marked answer does not wait for a person again."""
    before = cells_of_regrade(course)
    rows = grade_assignment(COURSES[course.name], course, Options(jobs=1, force=True, feedback="name"))
    assert before == cells_of_regrade(course)
    assert SCORES[course.name] == {row.student: row.score for row in rows}
    assert [0, 0, 0] == [row.waiting for row in rows]
    assert sorted(SCORES[course.name].values()) == scores(course, capsys)
    assert SCORES[course.name] == exported(course)


def change_source(course: Path, old: str, new: str) -> None:
    """Replace a text in the source notebook."""
    [path] = (course / "source").glob("*/*.ipynb")
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


@pytest.mark.parametrize("course", ["new"], indirect=True)
def test_a_source_that_gained_and_lost_cells_is_accepted_on_request(bubblewrap, course, capsys):
    """Otherwise one sentence names the cells, and nothing is changed. Afterwards points of a lost test no longer count."""
    change_source(course, '"grade_id": "test_warm_days"', '"grade_id": "test_warmer"')
    change_source(course, '"points": 3', '"points": 4')
    before, words = cells_of_regrade(course), ["grade", "first", "--course", str(course), "--jobs", "1"]
    assert 2 == cli.main(words)
    told = capsys.readouterr().err
    assert "has lost test_warm_days and gained test_warmer since the class was graded" in told
    assert 1 == told.count("\n")
    assert before == cells_of_regrade(course)
    assert 1 == cli.main([*words, "--accept-source", "--dry-run", "--json"])
    moved = {one["student"]: (one["before"], one["after"]) for one in json.loads(capsys.readouterr().out)["moved"]}
    # By hand: ann has 4 of the test and 2 of a person; ben 1 of a person, less a tenth of 6.
    assert {"ann": (5.0, 6.0), "ben": (0.5, 0.4)} == moved
    assert before == cells_of_regrade(course)
    assert 0 == cli.main([*words, "--accept-source", "--json"])
    rows = {row["student"]: row["score"] for row in json.loads(capsys.readouterr().out)["students"]}
    assert {"ann": 6.0, "ben": 0.4, "cleo": 0.0} == rows == exported(course)
    assert ("ann", "summary", None, 2.0, 0) in cells_of_regrade(course)
    assert {"test_warmer", "summary"} == {name for _, name, *_ in cells_of_regrade(course)}


@pytest.mark.parametrize("course", ["new"], indirect=True)
@pytest.mark.parametrize(("written", "penalty", "said"), [
    ("2026-03-02 12:59:00 +0100", 0.0, ""),
    ("2026-03-02T13:01:00+01:00", 0.5, ""),
    ("yesterday evening", 0.0, "'yesterday evening', which is not a time; counted as on time"),
])  # fmt: skip
def test_a_submission_time_is_read_or_listed(bubblewrap, course, capsys, written, penalty, said):
    """An offset is respected, also for unchanged submissions. The due date is noon, UTC."""
    (course / "submitted" / "ann" / "first" / "timestamp.txt").write_text(written)
    words = ["grade", "first", "--course", str(course), "--jobs", "1", "--json", "--feedback", "off"]
    assert bool(said) == cli.main(words)
    students = json.loads(capsys.readouterr().out)["students"]
    [ann] = [row for row in students if row["student"] == "ann"]
    assert penalty == ann["late_penalty"]
    assert ([f"timestamp.txt says {said}"] if said else []) == ann["problems"]
    assert [] == [row["problems"] for row in students if row["problems"] and row is not ann]
