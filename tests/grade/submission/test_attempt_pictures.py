"""Feedback shows the tensors that autograd has saved during a wrong answer; the recording does not cost the submission time."""

from dataclasses import replace

import msgspec
import nbformat
import pytest

from autograder.grade.batch.feedback_page import outputs_html
from autograder.tape import record
from autograder.tape.recording.schema import LARGEST_RECORDING, checked_recording
from autograder.view.notebook import MOST_BYTES
from tests.grade.conftest import LIMITS, grader_of
from tests.grade.small_course import answer, graded_cell, hand_in, points, source, teacher

CHECK = """
def given(x):
    y = x.sigmoid()
    y.mul_(2)
    return y

check("double_gate", like=given, x=leaf(3))
"""
SOURCE = source(
    teacher("import os, torch\nfrom autograder.check import check, leaf"),
    answer("answer", "def double_gate(x):\n    return 2 * x.sigmoid()"),
    graded_cell("double_gate", CHECK.strip()),
    answer("later", "later = 1"),
    graded_cell("test_later", "assert later == 1"),
)
WRONG = "def double_gate(x):\n    y = x.sigmoid()\n    y.data.mul_(2)\n    return y"
# What it does in the fork in which wrong answers are recorded.
LATER = """
import os
judged_in = os.getpid()

def double_gate(x):
    if os.getpid() != judged_in:
        {then}
    return x.sigmoid()
"""
FORGED = (
    "from autograder.check.subject.subjects import LocalSubject\n"
    "class Forged:\n    def __getattr__(self, name):\n        return 'x' * 10_000_000\n"
    "LocalSubject.recording = lambda self, request: {what}\n"
)


def graded(grader, text, pictures=True):
    """Return the points of both tests, and the HTML that the first one shows."""
    grade = grader.grade(SOURCE, hand_in(SOURCE, {"answer": text, "later": "later = 1"}), {}, 7, pictures=pictures)
    cells = {cell.metadata.nbgrader.grade_id: cell for cell in nbformat.reads(grade.notebook, 4).cells[1:]}
    html = [output.data.get("text/html", "") for output in cells["double_gate"].outputs if "data" in output]
    return points(grade), html, grade.cells["double_gate"].reason


def test_a_wrong_answer_is_shown(grader):
    """One picture with the harmful write, within the size limit of a saved picture; none for a right answer."""
    found, html, reason = graded(grader, WRONG)
    assert {"double_gate": 0, "test_later": 1} == found
    assert 1 == len(html)
    assert "still version 0: y.data is not counted" in html[0]
    assert "y.data.mul_(2)" in html[0]
    assert len(html[0].encode()) <= MOST_BYTES
    right, none, _ = graded(grader, "def double_gate(x):\n    return 2 * x.sigmoid()")
    assert ({"double_gate": 1, "test_later": 1}, []) == (right, none)


def test_the_message_names_the_line_that_the_notebook_names(grader):
    """With a recording, the reason names the writing line, as in the student's notebook; the points are the same without it."""
    with_line, without = graded(grader, WRONG), graded(grader, WRONG, pictures=False)
    assert (with_line[0], []) == (without[0], without[1])
    assert "y.data.mul_(2)" in with_line[2]
    assert "y.data.mul_(2)" not in without[2]


def test_no_seconds_no_picture(server, monkeypatch):
    """`picture_seconds = 0` disables pictures."""
    monkeypatch.setattr(server, "limits", replace(LIMITS, picture_seconds=0))
    assert [] == graded(grader_of(server), WRONG)[1]


def test_a_page_says_it_once(grader):
    """A check prints its message above the picture, and raises it; the feedback page has the message once, and the picture."""
    grade = grader.grade(SOURCE, hand_in(SOURCE, {"answer": WRONG, "later": "later = 1"}), {}, 7, pictures=True)
    cell = next(cell for cell in nbformat.reads(grade.notebook, 4).cells if "given(x)" in cell.source)
    page = outputs_html(cell.outputs)
    assert ["stream", "display_data", "error"] == [output.output_type for output in cell.outputs]
    assert 1 == page.count("saw       x.grad")
    assert "still version 0: y.data is not counted" in page


@pytest.mark.parametrize(
    "then",
    ["os._exit(1)", "while True: pass", "os.kill(os.getpid(), 11)", "torch.ones(2 ** 26).expand(2, -1).clone()"],
    ids=["exits", "never ends", "crashes", "takes 512 MiB"],
)
def test_what_happens_while_it_is_recorded_costs_nothing(grader, then):
    """An answer that goes wrong in another way when it is called again keeps the points of its later tests."""
    found, _, reason = graded(grader, LATER.format(then=then))
    assert {"double_gate": 0, "test_later": 1} == found
    assert "wrong return value" in reason


@pytest.mark.parametrize("what", ["Forged()", "None", "1 / 0", "'x' * 10_000_000"])
def test_a_forged_recording_changes_nothing(grader, what):
    """If a submission returns something else, there is no picture, and points and reason are the same."""
    forged = graded(grader, FORGED.format(what=what) + WRONG)
    assert graded(grader, WRONG, pictures=False) == (forged[0], forged[1], forged[2])


def test_only_a_recording_of_bounded_size_is_read():
    """Bytes of another form, or too many of them, are rejected; a valid recording is unchanged."""
    import torch

    found = record(lambda: torch.ones(2, requires_grad=True).exp().sum().backward())
    assert found == checked_recording(msgspec.msgpack.encode(found))
    many = msgspec.structs.replace(found, steps=found.steps * 5000)
    for data in (
        b"",
        b"\xc1",
        msgspec.msgpack.encode([1]),
        b"\x91" * 100_000,
        b"\x00" * (LARGEST_RECORDING + 1),
        msgspec.msgpack.encode(many),
    ):
        assert checked_recording(data) is None
