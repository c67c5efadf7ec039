# ruff: noqa: E501 - a submission's text is easier to read on one line
"""What is cached between submissions changes no grade."""

import nbformat
import pytest

from autograder.grade.submission.submission_grader import SubmissionGrader
from autograder.grade.submission.teacher.source import AssignmentSource
from tests.grade.conftest import LIMITS
from tests.grade.hostile.lesson import RIGHT, WRONG, source, submitted

SOURCE = AssignmentSource("attacked", source())


@pytest.fixture(scope="module")
def grader(server):
    """A grader at the strongest level."""
    return SubmissionGrader(server, LIMITS)


def points(grader, answers, seed=7):
    """Returns the points of each cell."""
    graded = grader.grade(SOURCE, nbformat.writes(submitted(answers)).encode(), {}, seed)
    return {name: cell.points for name, cell in graded.cells.items()}


def test_the_order_of_submissions_changes_no_grade(grader):
    """Right after wrong, wrong after right, and a value of another type that looks the same: each gets its own."""
    cases = [WRONG, RIGHT, RIGHT | {"number": "number = '41317'"}, RIGHT | {"number": "number = 41317.0"}, WRONG, RIGHT]
    numbers = [points(grader, answers)["number"] for answers in cases]
    assert [0.0, 3.0, 0.0, 3.0, 0.0, 3.0] == numbers
    assert [0.0, 2.0] == [points(grader, answers)["scaled"] for answers in (WRONG, RIGHT)]


def test_a_program_that_ends_itself_ends_nobody_else(grader):
    """The tests after its end fail for this submission only."""
    ending = WRONG | {"scaled": "import os\nos._exit(0)"}
    found = [sum(points(grader, answers, seed=8).values()) for answers in (ending, RIGHT, ending, WRONG, RIGHT)]
    assert [0.0, 8.0, 0.0, 0.0, 8.0] == found


def test_inputs_are_the_same_within_a_run_and_others_in_the_next(grader):
    """One seed gives every submission the same inputs; another seed gives others."""
    spy = RIGHT | {"scaled": "seen = []\n" + RIGHT["scaled"].replace(":\n", ":\n    seen.append(d.tolist())\n", 1)}
    reasons = []
    for seed in (1, 1, 2):
        notebook = nbformat.writes(submitted(spy | {"number": "print(seen)"})).encode()
        graded = nbformat.reads(grader.grade(SOURCE, notebook, {}, seed).notebook, 4)
        reasons.append(
            [
                output.text
                for cell in graded.cells
                for output in cell.get("outputs", [])
                if output.get("name") == "stdout"
            ][-1]
        )
    assert reasons[0] == reasons[1] != reasons[2]
