"""The demonstrations of a lesson are recorded once for a class, from the source's own cells; no submission changes another's."""

import nbformat
import pytest

from autograder.grade.submission import submission_grader
from tests.grade.conftest import grader_of
from tests.grade.small_course import answer, graded_cell, hand_in, source, teacher

SHOWN = """
@observed
def shown():
    w = torch.ones(2, requires_grad=True)
    w.exp().sum().backward()
"""
SOURCE = source(
    teacher("import torch\nfrom autograder.check import observed"),
    answer("value", "value = 1"),
    teacher(SHOWN.strip()),
    graded_cell("test", "assert value == 1"),
)
UNTOUCHED, RIGHT = {}, {"value": "value = 1"}
FOREIGN = {"value": "value = 1\ntorch.Tensor.exp = torch.Tensor.sin"}
FORGED = {
    "value": "value = 1\nfrom autograder.check.programs import demonstrations as d\n"
    "kept = d._kept.get()\nd._deciding = lambda program: 'all'\nkept._known['all'] = d.record(lambda: torch.zeros(1))"
}


def pictures(grader, answers):
    """Return the forms of the demonstration in the graded notebook."""
    graded = grader.grade(SOURCE, hand_in(SOURCE, answers), {}, 7)
    cells = nbformat.reads(graded.notebook, 4).cells
    return next(cell for cell in cells if "@observed" in cell.source).outputs[0].data


@pytest.fixture
def alone(server, monkeypatch):
    """A grader that lets each submission record for itself."""
    monkeypatch.setattr(submission_grader, "recordings_of", lambda source, server: b"")
    return grader_of(server)


def test_a_picture_is_what_the_submission_would_have_recorded(server, alone):
    """With and without recordings from the source the notebooks show the same, also where an answer replaced a method."""
    found = [pictures(alone, answers) for answers in (UNTOUCHED, RIGHT, FOREIGN)]
    assert "SinBackward0" in found[2]["text/html"]
    assert "SinBackward0" not in found[1]["text/html"]
    assert "ExpBackward0" in found[1]["text/html"]


def test_recordings_of_the_source_show_the_same(server, alone, monkeypatch):
    """The same three submissions, and one that forges the recordings in its own process, in both orders."""
    expected = [pictures(alone, answers) for answers in (UNTOUCHED, RIGHT, FOREIGN)]
    monkeypatch.undo()
    grader = grader_of(server)
    pictures(grader, FORGED)
    assert grader._recordings[SOURCE.digest]
    assert expected == [pictures(grader, answers) for answers in (UNTOUCHED, RIGHT, FOREIGN)]
    assert expected[::-1] == [pictures(grader, answers) for answers in (FOREIGN, RIGHT, UNTOUCHED)]
