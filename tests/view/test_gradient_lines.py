"""One leaf's gradient as a line of text."""

import pytest

from autograder.tape.recording.verdict_types import Gradient
from autograder.view.text.gradient_values import gradient_line


@pytest.mark.parametrize(
    ("got", "line"),
    [
        pytest.param([1.0, 2.0], "w.grad  got [1, 2]  right [2, 4]  <- off by 50 %", id="wrong"),
        pytest.param(None, "w.grad  got nothing  right [2, 4]", id="missing"),
    ],
)
def test_only_a_computed_gradient_is_measured(got, line):
    """A gradient that backward computed shows its relative error; a missing one does not, since it was not computed."""
    assert line == gradient_line("w", Gradient(got, [2.0, 4.0], off=0.5 if got else 1.0))


def test_a_narrow_line_shows_fewer_numbers_and_cuts_none():
    """Numbers that do not fit are counted; a cut one would be read as another number."""
    gradient = Gradient([0.125] * 9, [0.125] * 9, rounds=800)
    wide = "w.grad  got [0.125, 0.125, 0.125, … 6 more]  right [0.125, 0.125, 0.125, … 6 more]  (made 800 times)"

    assert wide == gradient_line("w", gradient)
    narrow = "w.grad  got [0.125, … 8 more]  right [0.125, … 8 more]  (made 800 times)"
    assert narrow == gradient_line("w", gradient, width=75)
