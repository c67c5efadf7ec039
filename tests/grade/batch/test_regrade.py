"""A class that version 0.1.0 graded (commit fb18230) keeps its points: graded again, reported and exported.

`graded_before.tar.xz` holds two courses with gradebook, records, graded notebooks and feedback: the one that `autograder new`
wrote, with late work and two written answers that a person marked, and a lesson with all, three and none of 23 points.
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
    """Returns the scores that `autograder report` finds, by student."""
    assert 0 == cli.main(["report", COURSES[course.name], "--course", str(course), "--json"])
    return json.loads(capsys.readouterr().out)["report"]["scores"]


def exported(course: Path) -> dict[str, float]:
    """Returns the scores that `nbgrader export` writes, by student."""
    place = {"HOME": str(course), "JUPYTER_CONFIG_DIR": str(course), "PYTHONPATH": os.getcwd()}
    words = [sys.executable, "-m", "nbgrader", "export"]
    done = subprocess.run(words, cwd=course, env=os.environ | place, capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr
    rows = csv.DictReader((course / "grades.csv").read_text("utf-8").splitlines())
    return {row["student_id"]: float(row["score"]) for row in rows}


def cells(course: Path) -> list[tuple]:
    """Returns each student's points by cell, as nbgrader keeps them, read without nbgrader."""
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
