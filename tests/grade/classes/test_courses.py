"""Assignments of other courses: each test cell is scored as stock nbgrader scores it, in one process and in two."""

import shutil
import sqlite3

import nbformat
import pytest

from autograder.grade.batch.assignment import Options, grade_assignment
from autograder.grade.sandbox.isolation import LEVELS
from tests.commands import nbgrader
from tests.courses.course_texts import assignments, released, write_course

pytestmark = pytest.mark.slow

QUICKSTART = "quickstart"
# What students hand in for nbgrader's own example course, by the cell's id; without a text, the model answer.
STUDENTS = {
    "right": {},
    "wrong": {"squares": "def squares(n):\n    return list(range(n))"},
    "own_way": {"squares": "def squares(n):\n    if n < 1:\n        raise ValueError\n    return [i * i for i in range(1, n + 1)]"},
    "alone": {"sum_of_squares": "def sum_of_squares(n):\n    return n * (n + 1) * (2 * n + 1) // 6"},
    "raising": {"squares": "raise RuntimeError('not done')"},
}  # fmt: skip


def write_quickstart(course):
    """Write nbgrader's example course with submissions."""
    nbgrader(course.parent, "quickstart", course.name)
    for source in (course / "source" / "ps1").glob("*.ipynb"):
        notebook = nbformat.read(source, 4)
        models = {
            cell.metadata.nbgrader.grade_id: cell.source for cell in notebook.cells if "nbgrader" in cell.metadata
        }
        for student, answers in (STUDENTS | {"untouched": None}).items():
            handed_in = released(notebook)
            for cell in handed_in.cells:
                known = cell.metadata.get("nbgrader", {})
                if known.get("solution") and answers is not None:
                    cell.source = (models | answers)[known.grade_id]
            folder = course / "submitted" / student / "ps1"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / source.name).write_text(nbformat.writes(handed_in), "utf-8")


def scores(course) -> dict:
    """Return the automatic score of every graded cell, by student and cell, from the database itself."""
    query = """
        SELECT s.student_id, c.name, g.auto_score FROM grade g JOIN base_cell c ON g.cell_id = c.id
        JOIN submitted_notebook n ON g.notebook_id = n.id JOIN submitted_assignment s ON n.assignment_id = s.id"""
    with sqlite3.connect(course / "gradebook.db") as database:
        return {row[:2]: row[2] for row in database.execute(query)}


# One course of another hand, and nbgrader's own, stand for the others in the hour of CI.
JUDGED = [pytest.param(name, marks=[] if name == "classes" else pytest.mark.exhaustive) for name in assignments()]


@pytest.fixture(scope="module", params=[*JUDGED, QUICKSTART])
def judged(request, tmp_path_factory):
    """A course, the assignment's name, and the points of nbgrader for each cell."""
    if LEVELS["bubblewrap"].obstacle:
        pytest.skip(LEVELS["bubblewrap"].obstacle)
    stock, ours = tmp_path_factory.mktemp("stock") / "course", tmp_path_factory.mktemp("ours") / "course"
    name = "ps1" if request.param == QUICKSTART else request.param
    write_quickstart(stock) if request.param == QUICKSTART else write_course(stock, [name])
    shutil.copytree(stock, ours)
    nbgrader(stock, "generate_assignment", name)
    nbgrader(stock, "autograde", name)
    return ours, name, scores(stock)


def test_one_process_scores_as_stock(judged):
    """Every cell of every student, with `--one-process`."""
    course, name, expected = judged
    grade_assignment(name, course, Options(one_process=True, force=True))
    assert expected == scores(course)


def test_two_processes_score_as_stock(judged):
    """Every cell of every student in the default mode, after the source's validation."""
    course, name, expected = judged
    grade_assignment(name, course, Options(force=True))
    assert expected == scores(course)


def test_stock_tells_students_apart(judged):
    """The model answers have the most points, wrong answers fewer, and the unchanged release has none."""
    _, _, expected = judged
    totals = {student: 0.0 for student, _ in expected}
    for (student, _), points in expected.items():
        totals[student] += points or 0.0
    assert 0 == totals["untouched"] <= totals["wrong"] < totals["right"] == max(totals.values())
