"""Predictions of values: numbers to two digits, words in any case, None; with a gap, the check is not attempted."""

import pytest
import torch

from autograder.check import predicted_value
from autograder.check.learner import use_names
from autograder.check.message import Incorrect, NotAttempted


class Guess:
    """The student's only name."""

    def __init__(self, value):
        self.held = value

    def value(self, name):
        """Return the prediction."""
        return self.held


def judged(guess, value):
    """Return the message of the check for a prediction of a program's return value; None if it passes."""
    ran = []

    def program():
        ran.append(1)
        return value

    raised = None
    try:
        with use_names(Guess(guess)):
            predicted_value("mine")(program)
    except (Incorrect, NotAttempted) as refusal:
        raised = refusal
    assert bool(ran) != isinstance(raised, NotAttempted)
    return raised


@pytest.mark.parametrize(
    ("guess", "value"),
    [
        (torch.tensor(2.0), 2.0),
        ([torch.tensor([2.0, 8.0]), None], [[2.0, 8.0], None]),
        (1, 1.0),
        (0.197, 0.1966),
        ([0.2, 0.1], (0.1996, 0.101)),
        ("Same ", "same"),
        ([[2, 8], None], [[2.0, 8.0], None]),
        (0, 1e-9),
    ],
)
def test_what_one_works_out_on_paper_is_right(guess, value):
    """Two digits are enough; lists and tuples are alike; words in any case, spaces around them aside."""
    assert judged(guess, value) is None


@pytest.mark.parametrize(
    ("guess", "value"),
    [
        (4, 1.0),
        (True, 1.0),
        ("one", 1.0),
        ([1.0], 1.0),
        (1.0, [1.0]),
        ([1.0, 2.0], [1.0]),
        (None, 0.0),
        (0, None),
        ("", "same"),
    ],
)
def test_another_value_is_refused_beside_the_right_one(guess, value):
    """The message contains both values; a truth value is not a number, a list is not an item, and None is not zero."""
    assert Incorrect is type(wrong := judged(guess, value))
    assert "you predicted" in str(wrong)
    assert "the value of this program" in str(wrong)


@pytest.mark.parametrize("guess", [..., "...", [..., 1], [[1, ...], None]])
def test_a_gap_is_not_attempted(guess):
    """While one value is missing, the program is not run and no result is shown."""
    assert NotAttempted is type(judged(guess, [1.0, 2.0]))
