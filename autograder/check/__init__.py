"""Checks: a learner's function goes in, a verdict with a reason comes out.

    check("clear_after_use", like=given, d=result("n", 3), w2=leaf(3))

A check never calls the learner's function itself. It asks a subject for a report of plain data, so the same cell works in
a notebook and in a grader that keeps the function in another, isolated process.
"""

from autograder.check.culprits import culprit
from autograder.check.events import passed
from autograder.check.exercise import check
from autograder.check.expected import slope
from autograder.check.message import Incorrect, NotAttempted
from autograder.check.outcome import check_outcome
from autograder.check.prediction import observed, predicted
from autograder.check.subject.inputs import constant, indices, leaf, result
from autograder.view import get_ready

__all__ = [
    "Incorrect",
    "NotAttempted",
    "check",
    "check_outcome",
    "constant",
    "culprit",
    "indices",
    "leaf",
    "observed",
    "passed",
    "predicted",
    "result",
    "slope",
]

get_ready()
