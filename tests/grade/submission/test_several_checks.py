"""Several checks of one exercise in one test: each call counts, as in a notebook, where a wrong answer fails the second one."""

import pytest

from autograder.grade.submission.submission_grader import SubmissionGrader
from tests.grade.conftest import LIMITS
from tests.grade.small_course import answer, graded_cell, hand_in, points, source

IMPORTS = "from autograder.check import check, constant, leaf, result\ndef right(x):\n    return x * 2\n"
FOUR, FIVE = 'check("f", like=right, x=constant(4))', 'check("f", like=right, x=constant(5))'
TESTS = {
    "hidden after visible": f"{FOUR}\n### BEGIN HIDDEN TESTS\n{FIVE}\n### END HIDDEN TESTS",
    "a loop over shapes": 'for n in (4, 5):\n    check("f", like=right, x=constant(n))',
    "two lines": f"{FOUR}\n{FIVE}",
    "another kind of input": f"{FOUR}\n{FIVE.replace('constant', 'leaf')}",
}
KINDS = {"a loop over shapes": "plain data"}
WRONG = {
    "for five": "def f(x):\n    return x * (2 if x.shape[0] == 4 else 3)",
    "for four": "def f(x):\n    return x * (2 if x.shape[0] == 5 else 3)",
}


@pytest.mark.parametrize("name", TESTS)
def test_each_check_of_a_cell_counts(server, name):
    """A right answer has full points; an answer that is wrong for one input has none."""
    of = source(answer("a", "def f(x):\n    return x * 2"), graded_cell("t", IMPORTS + TESTS[name], 3))
    grader = SubmissionGrader(server, LIMITS)
    found = {
        text: grader.grade(of, hand_in(of, {"a": text}), {}, 7)
        for text in [*WRONG.values(), "def f(x):\n    return x + x"]
    }
    assert [0.0, 0.0, 3.0] == [points(grade)["t"] for grade in found.values()]
    assert {KINDS.get(name, "declarative")} == {grade.cells["t"].kind for grade in found.values()}
