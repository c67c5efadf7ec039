"""The whole thread with plain nbgrader commands: release, validate, grade a class, write feedback.

The score of every grade cell is compared with what the submission deserves, but for "forged": stock nbgrader 0.9.6 reads
the nan that it displays as full marks (`tests/grade/classes/test_like_nbgrader.py`).
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from autograder.course.paths import NOTEBOOKS, ROOT, SOLUTIONS
from tests.fixture_class.submissions import Lesson, submissions

ASSIGNMENT = "02_mutating_a_saved_tensor"
NOTEBOOK = f"{ASSIGNMENT}/{ASSIGNMENT}.ipynb"

# The class is graded once, in a fixture: two minutes of kernels starting.
pytestmark = [pytest.mark.timeout(900), pytest.mark.slow, pytest.mark.exhaustive]

LESSON = Lesson(SOLUTIONS / NOTEBOOK, NOTEBOOKS / NOTEBOOK)
CLASS = {submission.student: submission for submission in submissions(LESSON)}


def nbgrader(course: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a plain nbgrader command from the course's root, with the environment's programs on PATH (it needs alembic)."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    home = {"HOME": str(course / "home"), "JUPYTER_CONFIG_DIR": str(course / "home")}
    command = [sys.executable, "-m", "nbgrader", *words]
    return subprocess.run(command, cwd=course, env=os.environ | home | {"PATH": path}, capture_output=True, text=True)


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Path:
    """A course folder in which plain nbgrader released the lesson, graded the class, and wrote feedback."""
    root = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "nbgrader_config.py", root)
    shutil.copytree(SOLUTIONS / ASSIGNMENT, root / "solutions" / ASSIGNMENT)
    for submission in CLASS.values():
        target = root / "class" / "submitted" / submission.student / NOTEBOOK
        target.parent.mkdir(parents=True)
        target.write_text(submission.text, "utf-8")
    for words in (
        ["generate_assignment", ASSIGNMENT],
        ["autograde", ASSIGNMENT, "--Execute.timeout=30"],
        ["generate_feedback", ASSIGNMENT],
    ):
        done = nbgrader(root, *words)
        # A submission that is not a notebook makes these two end with 1, after all others are done.
        assert done.returncode in ({0, 1} if words[0] == "autograde" else {0}), done.stderr[-2000:]
    return root


def shares(course: Path, student: str) -> dict[str, float]:
    """Returns each grade cell's share of its points from the gradebook; what gives no points has none."""
    with Gradebook(f"sqlite:///{course / 'class' / 'gradebook.db'}") as gradebook:
        submission = gradebook.find_submission(ASSIGNMENT, student)
        grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
        return {grade.name: (grade.score or 0) / grade.max_score for grade in grades if grade.max_score}


@pytest.mark.parametrize("student", sorted(CLASS.keys() - {"forged"}))
def test_each_student_gets_what_the_work_deserves(course, student):
    """Every grade cell of every submission has the points that its answer deserves."""
    assert CLASS[student].deserved == shares(course, student)


def test_feedback_tells_a_wrong_answer_what_to_look_at(course):
    """The feedback page of a wrong answer holds the four lines, and no traceback of ours."""
    page = (course / "class" / "feedback" / "wrong_0" / NOTEBOOK).with_suffix(".html").read_text("utf-8")
    assert "the gradient of w2 is wrong (and no error was raised)" in page
    assert "look at" in page
    assert "autograder/check" not in page


@pytest.mark.parametrize(("student", "word"), [("model", "Success"), ("wrong_0", "VALIDATION FAILED")])
def test_validate_says_which_cells_fail(course, student, word):
    """`nbgrader validate` runs a submission and tells; its exit code says nothing, so its words are read."""
    done = nbgrader(course, "validate", f"class/submitted/{student}/{NOTEBOOK}")
    assert word in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 90
