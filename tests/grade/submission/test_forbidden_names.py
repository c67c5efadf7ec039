"""A forbidden name is found wherever a submission writes it, and ways to hide it are rejected as well."""

import pytest

from autograder.grade.submission.submission_grader import SubmissionGrader
from tests.grade.conftest import LIMITS
from tests.grade.hostile.forbidden_names import ALLOWED, ANSWER, HELPER, HIDDEN
from tests.grade.small_course import answer, graded_cell, hand_in, source, teacher

CHECK = """
def given(d, w):
    f = d * w
    d[:] = 1
    return f
check("f", like=given, without=("clone",), d=result("n", 3), w=leaf(3))
"""


@pytest.fixture
def graded(server):
    """A function that returns a cell's grade for an answer, with a module next to the notebook."""
    setup = teacher("import torch\nfrom autograder.check import check, leaf, result")
    of = source(setup, answer("a", ANSWER.format(copy="d")), graded_cell("t", CHECK))
    grader = SubmissionGrader(server, LIMITS)
    return lambda text, module: grader.grade(of, hand_in(of, {"a": text}), {"helper.py": module}, 5).cells["t"]


@pytest.mark.parametrize("way", HIDDEN)
def test_a_forbidden_name_is_refused_where_it_is_hidden(graded, way):
    """The answer computes the right values, gets no points, and the reason states the cause."""
    found = graded(HIDDEN[way], HELPER)
    assert not found.points
    assert "this name is not allowed here" in found.reason


@pytest.mark.parametrize("way", ALLOWED)
def test_an_answer_without_the_name_has_its_points(graded, way):
    """A submitted module is allowed as long as it does not use the name either."""
    assert (graded(ALLOWED[way], b"def added(tensor):\n    return tensor + 0\n").status, way) == ("correct", way)
