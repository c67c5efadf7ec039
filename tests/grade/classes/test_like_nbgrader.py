"""Grades, comments and autograded notebooks equal nbgrader's wherever it is right; wrong answers to the lessons are judged."""

from __future__ import annotations

import shutil
import sqlite3

import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder.course import catalogue
from autograder.course.canonical import read
from autograder.course.paths import NOTEBOOKS, SOLUTIONS
from autograder.grade.batch.assignment import Options, grade_assignment
from autograder.grade.sandbox.isolation import LEVELS
from autograder.tape.recording.verdict_types import OUTCOMES
from tests.commands import nbgrader
from tests.fixture_class.submissions import Lesson
from tests.grade.conftest import grader_of
from tests.grade.small_course import source_of

ASSIGNMENT = "mixed"

# What stock nbgrader 0.9.6 gets wrong in this class: (student, cell) -> its points, and what they should have been.
DIFFERENT = {
    # Text on stderr costs everything, a warning too.
    ("warned", "test_code"): (0.0, 2.0),
    ("warned", "test_part"): (0.0, 1.0),
    # A negative number that the answer itself displays gives full marks.
    ("negative", "test_code"): (2.0, 0.0),
    ("negative", "test_part"): (1.0, 0.25),
}


def _cell(kind, text, name, **known):
    shape = {"grade_id": name, "grade": False, "solution": False, "locked": False, "schema_version": 3, "task": False}
    make = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
    return make(text, metadata={"nbgrader": shape | known})


def source() -> nbformat.NotebookNode:
    """Return a notebook with every kind of cell that nbgrader knows."""
    return nbformat.v4.new_notebook(
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        cells=[
            _cell("code", "import math", "setup", locked=True),
            _cell("code", "### BEGIN SOLUTION\ndef half(x):\n    return x / 2\n### END SOLUTION", "code", solution=True),
            _cell("code", "assert half(3) == 1.5\n### BEGIN HIDDEN TESTS\nassert half(-1) == -0.5\n### END HIDDEN TESTS",
                  "test_code", grade=True, locked=True, points=2),
            _cell("code", "credit = 1 if half(1) == 0.5 else 0.25\ncredit", "test_part", grade=True, locked=True, points=1),
            _cell("code", "### BEGIN SOLUTION\nprint(1)\n### END SOLUTION", "by_hand", grade=True, solution=True, points=3),
            _cell("markdown", "Because.", "written", grade=True, solution=True, points=4),
            _cell("markdown", "Draw a graph.", "drawn", task=True, locked=True, points=5),
        ],
    )  # fmt: skip


HALF = "def half(x):\n    return x / 2"
STUDENTS = {
    "right": {"code": HALF, "by_hand": "print('mine')", "written": "I think so."},
    "wrong": {"code": "def half(x):\n    return x", "written": "No idea."},
    "partly": {"code": "def half(x):\n    return abs(x) / 2"},
    "untouched": {},
    "raising": {"code": "raise ValueError('stop')"},
    "warned": {"code": "import sys\ndef half(x):\n    print('careful', file=sys.stderr)\n    return x / 2"},
    "negative": {"code": "def half(x):\n    get_ipython().displayhook(-1)"},
}


def released(course) -> nbformat.NotebookNode:
    """Return the notebook as it was released."""
    return nbformat.read(course / "release" / ASSIGNMENT / "mixed.ipynb", as_version=4)


@pytest.fixture(scope="module")
def courses(tmp_path_factory):
    """Two copies of one course, graded by stock nbgrader and by us."""
    if LEVELS["bubblewrap"].obstacle:
        pytest.skip(LEVELS["bubblewrap"].obstacle)
    stock, ours = tmp_path_factory.mktemp("stock"), tmp_path_factory.mktemp("ours") / "course"
    target = stock / "source" / ASSIGNMENT / "mixed.ipynb"
    target.parent.mkdir(parents=True)
    target.write_text(nbformat.writes(source()), "utf-8")
    nbgrader(stock, "generate_assignment", ASSIGNMENT)
    for student, answers in STUDENTS.items():
        notebook = released(stock)
        for cell in notebook.cells:
            cell.source = answers.get(cell.metadata.nbgrader.grade_id, cell.source)
        folder = stock / "submitted" / student / ASSIGNMENT
        folder.mkdir(parents=True)
        (folder / "mixed.ipynb").write_text(nbformat.writes(notebook), "utf-8")
        (folder / "timestamp.txt").write_text("2026-02-03 04:05:06.000000 UTC", "utf-8")
        (folder / "notes.txt").write_text("mine", "utf-8")
    shutil.copytree(stock, ours)
    nbgrader(stock, "autograde", ASSIGNMENT)
    grade_assignment(ASSIGNMENT, ours, Options(jobs=1))
    return stock, ours


def rows(course) -> dict:
    """Return every row of grade and comment, by student and cell, from the database itself."""
    query = """
        SELECT s.student_id, c.name, g.auto_score, g.manual_score, g.extra_credit, g.needs_manual_grade
        FROM {table} g JOIN base_cell c ON g.cell_id = c.id JOIN submitted_notebook n ON g.notebook_id = n.id
        JOIN submitted_assignment s ON n.assignment_id = s.id"""
    comments = query.replace(
        "g.auto_score, g.manual_score, g.extra_credit, g.needs_manual_grade", "g.auto_comment, g.manual_comment"
    )
    with sqlite3.connect(course / "gradebook.db") as database:
        found = {("grade", row[0], row[1]): row[2:] for row in database.execute(query.format(table="grade"))}
        return found | {("comment", *row[:2]): row[2:] for row in database.execute(comments.format(table="comment"))}


def test_rows_of_grade_and_comment_are_nbgraders(courses):
    """Every row is the same except those in DIFFERENT, which also gives the correct values."""
    stock, ours = (rows(course) for course in courses)
    assert stock.keys() == ours.keys()
    differences = {key[1:]: (stock[key][0], ours[key][0]) for key in stock if stock[key] != ours[key]}
    assert DIFFERENT == differences


def test_submissions_are_nbgraders(courses):
    """Time stamps and late penalties are the same."""

    def seen(course):
        with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
            return {
                s.student.id: (s.timestamp, [n.late_submission_penalty for n in s.notebooks])
                for s in gradebook.assignment_submissions(ASSIGNMENT)
            }

    assert seen(courses[0]) == seen(courses[1])


def test_autograded_folders_are_nbgraders(courses):
    """The same files lie there; the notebooks' cells have the same text, kind and metadata of nbgrader."""
    stock, ours = (course / "autograded" for course in courses)
    names = [
        sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        for folder in (stock, ours)
    ]
    assert names[0] == names[1]
    for student in STUDENTS:
        pair = [nbformat.read(folder / student / ASSIGNMENT / "mixed.ipynb", 4).cells for folder in (stock, ours)]
        kept = ("schema_version", "grade", "solution", "locked", "task", "grade_id", "points", "checksum")
        plain = [
            [(c.cell_type, c.source, {k: c.metadata.nbgrader.get(k) for k in kept}) for c in cells] for cells in pair
        ]
        assert plain[0] == plain[1]


def test_outputs_are_a_kernels(courses):
    """The outputs of the right answer's cells are the same, with their execution counts."""
    pair = [nbformat.read(course / "autograded" / "right" / ASSIGNMENT / "mixed.ipynb", 4).cells for course in courses]
    said = [[(c.get("execution_count"), c.get("outputs")) for c in cells] for cells in pair]
    assert said[0] == said[1]


def test_nbgrader_goes_on_with_the_result(courses):
    """`generate_feedback` and `export` work with the results of this grader."""
    ours = courses[1]
    nbgrader(ours, "generate_feedback", ASSIGNMENT)
    nbgrader(ours, "export")
    table = (ours / "grades.csv").read_text("utf-8")
    assert all(student in table for student in STUDENTS)
    assert (ours / "feedback" / "right" / ASSIGNMENT / "mixed.html").exists()


def test_handing_in_again_without_the_test_cell_gains_nothing(courses):
    """nbgrader keeps the old points if the cell is missing (0.9.6); here it is restored and run."""
    ours = courses[1]
    path = ours / "submitted" / "right" / ASSIGNMENT / "mixed.ipynb"
    notebook = nbformat.read(path, 4)
    notebook.cells = [c for c in notebook.cells if c.metadata.nbgrader.grade_id not in ("test_code", "test_part")]
    notebook.cells[1].source = "def half(x):\n    return 0"
    path.write_text(nbformat.writes(notebook), "utf-8")
    [row] = [row for row in grade_assignment(ASSIGNMENT, ours, Options(jobs=1)) if not row.unchanged]
    assert ("right", 0.0, 0.25) == (
        row.student,
        row.cells["mixed"]["test_code"].points,
        row.cells["mixed"]["test_part"].points,
    )


def test_what_a_person_entered_stays(courses):
    """A manual score is kept when the same submission is graded again, and the cell does not wait for a person again."""
    ours = courses[1]
    with Gradebook(f"sqlite:///{ours / 'gradebook.db'}") as gradebook:
        grade = gradebook.find_grade("test_code", "mixed", ASSIGNMENT, "wrong")
        grade.manual_score = 1.5
        gradebook.db.commit()
    grade_assignment(ASSIGNMENT, ours, Options(jobs=1, force=True))
    with Gradebook(f"sqlite:///{ours / 'gradebook.db'}") as gradebook:
        grade = gradebook.find_grade("test_code", "mixed", ASSIGNMENT, "wrong")
        assert (1.5, 0.0, False) == (grade.manual_score, grade.auto_score, grade.needs_manual_grade)


QUICK = "02_mutating_a_saved_tensor"
LESSONS = sorted(
    path.name for path in SOLUTIONS.iterdir() if (path / f"{path.name}.ipynb").exists() and path.name[0].isdigit()
)


@pytest.mark.parametrize(
    "name", [name if name == QUICK else pytest.param(name, marks=pytest.mark.slow) for name in LESSONS]
)
def test_each_prediction_has_one_right_outcome_and_wrong_programs_have_no_points(name, server):
    """Of four submissions with one outcome each, exactly one gets each prediction right; other answers are incorrect with a message."""
    file = f"{name}/{name}.ipynb"
    lesson = Lesson(SOLUTIONS / file, NOTEBOOKS / file)
    programs = {one.id: one.of_kind("wrong")[0].source for one in lesson.exercises.values() if one.answers}
    predictions = [one for one in lesson.exercises if one.startswith("prediction_") and one not in programs]
    source, grader = source_of(name, read(SOLUTIONS / file)), grader_of(server)
    earned: dict[str, list[float]] = {one: [] for one in predictions}
    for outcome in OUTCOMES:
        answers = programs | {one: f'{one} = "{outcome}"' for one in predictions}
        cells = grader.grade(source, nbformat.writes(lesson.answered(answers)).encode(), {}).cells
        assert {one: (cells[one].status, cells[one].points) for one in programs} == dict.fromkeys(
            programs, ("incorrect", 0.0)
        )
        for one in predictions:
            assert cells[one].status in ("correct", "incorrect"), cells[one].reason
            earned[one].append(cells[one].points)
    known = next(known.predictions for known in catalogue.lessons() if known.name == name)
    of_outcomes = [
        one for one in predictions if set(known.get(one, ())) <= set(OUTCOMES) and one in known
    ]  # the others ask for a value, or for three outcomes together
    assert {one: sum(map(bool, earned[one])) for one in of_outcomes} == dict.fromkeys(of_outcomes, 1)
