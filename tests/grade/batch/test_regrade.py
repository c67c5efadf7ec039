"""A class graded by version 0.1.0 (commit fb18230) keeps its points when it is graded again, reported and exported.

`graded_before.tar.xz` contains two courses with gradebook, records, graded notebooks and feedback: a course of
`autograder new` with late submissions and two written answers that a person has graded, and a lesson with 23, 3 and 0
of 23 points.
"""

import csv
import json
import os
import sqlite3
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from autograder import cli
from autograder.grade.batch.assignment import Options, grade_assignment

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
    place = {"HOME": str(course), "JUPYTER_CONFIG_DIR": str(course), "PYTHONPATH": os.getcwd()}
    words = [sys.executable, "-m", "nbgrader", "export"]
    done = subprocess.run(words, cwd=course, env=os.environ | place, capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr
    rows = csv.DictReader((course / "grades.csv").read_text("utf-8").splitlines())
    return {row["student_id"]: float(row["score"]) for row in rows}


def cells(course: Path) -> list[tuple]:
    """Return each student's points by cell, as nbgrader keeps them, read without nbgrader."""
    query = """SELECT a.student_id, c.name, g.auto_score, g.manual_score, g.needs_manual_grade FROM grade g
        JOIN base_cell c ON c.id = g.cell_id JOIN submitted_notebook n ON n.id = g.notebook_id
        JOIN submitted_assignment a ON a.id = n.assignment_id ORDER BY 1, 2"""
    connection = sqlite3.connect(course / "gradebook.db")
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_earlier_records_are_read(course, capsys):
    """`report` and `nbgrader export` give the points of a class that was not graded again."""
    assert sorted(SCORES[course.name].values()) == scores(course, capsys)
    assert SCORES[course.name] == exported(course)


def test_grading_again_changes_no_points(bubblewrap, course, capsys):
    """After `grade --force` each cell has the points it had, and a marked answer does not wait for a person again."""
    before = cells(course)
    rows = grade_assignment(COURSES[course.name], course, Options(jobs=1, force=True, feedback="name"))
    assert before == cells(course)
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
    before, words = cells(course), ["grade", "first", "--course", str(course), "--jobs", "1"]
    assert 2 == cli.main(words)
    told = capsys.readouterr().err
    assert "has lost test_warm_days and gained test_warmer since the class was graded" in told
    assert 1 == told.count("\n")
    assert before == cells(course)
    assert 1 == cli.main([*words, "--accept-source", "--dry-run", "--json"])
    moved = {one["student"]: (one["before"], one["after"]) for one in json.loads(capsys.readouterr().out)["moved"]}
    # By hand: ann has 4 of the test and 2 of a person; ben 1 of a person, less a tenth of 6.
    assert {"ann": (5.0, 6.0), "ben": (0.5, 0.4)} == moved
    assert before == cells(course)
    assert 0 == cli.main([*words, "--accept-source", "--json"])
    rows = {row["student"]: row["score"] for row in json.loads(capsys.readouterr().out)["students"]}
    assert {"ann": 6.0, "ben": 0.4, "cleo": 0.0} == rows == exported(course)
    assert ("ann", "summary", None, 2.0, 0) in cells(course)
    assert {"test_warmer", "summary"} == {name for _, name, *_ in cells(course)}


@pytest.mark.parametrize("course", ["new"], indirect=True)
@pytest.mark.parametrize(
    ("written", "penalty", "said"),
    [
        ("2026-03-02 12:59:00 +0100", 0.0, ""),
        ("2026-03-02T13:01:00+01:00", 0.5, ""),
        ("yesterday evening", 0.0, "'yesterday evening', which is not a time; counted as on time"),
    ],
)
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
