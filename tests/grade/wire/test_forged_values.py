"""Forged messages of a worker under an attacker's control: none of them stops the grader, exhausts its memory, or gives points."""

from __future__ import annotations

import json

import msgspec
import pytest

from autograder.check.subject.call_report import Array
from autograder.grade.wire import messages
from autograder.grade.wire.outputs import MOST_PARTS, Outputs, ReceivedOutputs
from tests.grade.conftest import grader_of
from tests.grade.small_course import answer, graded_cell, hand_in, points, source


@pytest.mark.parametrize(
    "dtype", ["qint8", "quint8", "qint32", "quint4x2", "bits8", "int4", "bit", "_dynamo", "load", ""]
)
def test_only_numbers_of_whole_bytes_are_arrays(dtype):
    """Bytes that are said to be of a quantized type end PyTorch's process, so they never reach it."""
    with pytest.raises(ValueError, match=r"\w"):
        Array(dtype, (2,), b"abcdefgh").tensor()


def test_words_of_the_worker_are_short():
    """A message with a reason, a name or a print that is too long for a grade is rejected."""
    long = "x" * 1_000_000
    for message in (
        messages.Failure(long),
        messages.NameDescription("data", unsendable=long),
        messages.NameDescription("data", long),
        messages.CellRan(b"[]", ("ValueError", long)),
        messages.TestRan(b"[]", "incorrect", reason=long),
    ):
        with pytest.raises(msgspec.ValidationError):
            msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=type(message))


def stream(text: str = "x") -> dict:
    """Return an output."""
    return {"output_type": "stream", "name": "stdout", "text": text}


@pytest.mark.parametrize("data", [
    pytest.param(json.dumps([stream()] * 100_000), id="many"),
    pytest.param(json.dumps([stream("x" * 1_000_000)]), id="long"),
    pytest.param("[" * 100_000, id="deep"),
    pytest.param("[0]", id="numbers"),
    pytest.param("{}", id="a map"),
    pytest.param(json.dumps([{"output_type": "display_data", "data": {"application/json": [[]] * 10_000}, "metadata": {}}]), id="no text"),
    pytest.param(json.dumps([{"output_type": "display_data", "data": {}, "metadata": {"a": [[]] * 10_000}}]), id="metadata"),
])  # fmt: skip
def test_forged_outputs_are_refused(data):
    """The trusted side counts the limits that the worker should respect."""
    with pytest.raises(ValueError, match=r"\w"):
        ReceivedOutputs(100_000).read(data.encode())


def test_what_is_no_text_is_not_sent():
    """Of a display's parts, texts and the sizes of pictures leave the worker; a page shows nothing else."""
    outputs = Outputs(1_000)
    outputs.display(
        {"application/json": {"a": []}, "text/plain": "b"}, {"image/png": {"width": 3, "b": []}, "needs": "light"}
    )
    (found,) = ReceivedOutputs(1_000).read(json.dumps(outputs.take()).encode())
    assert found["data"] == {"text/plain": "b"}
    assert found["metadata"] == {"image/png": {"width": 3}}


def test_outputs_of_one_cell_together_are_limited():
    """Cells that each stay below the limit do not exceed it together."""
    received, data = ReceivedOutputs(1_000), json.dumps([stream("x" * 3_000)]).encode()
    received.read(data), received.read(data)
    with pytest.raises(ValueError, match=r"\w"):
        received.read(data)


def test_many_small_outputs_are_cut():
    """Turns of stdout and stderr, each of a letter, are a page of so many parts and no more."""
    outputs = Outputs(1_000_000)
    for number in range(20_000):
        outputs.stream(("stdout", "stderr")[number % 2], "x")
    outputs.error("ValueError", "no", [])
    taken = outputs.take()
    assert len(taken) == MOST_PARTS + 2
    assert [one["output_type"] for one in taken[-2:]] == ["stream", "error"]
    assert len(ReceivedOutputs(1_000_000).read(json.dumps(taken).encode())) == len(taken)


ANSWERS = {
    "an iterator without an end": "def f(x):\n    while True: yield 0",
    "a hash that ends its process": """
class P:
    def __init__(self): self.asked = 0
    def __eq__(self, other): return True
    def __hash__(self):
        self.asked += 1
        if self.asked > 1: __import__('os')._exit(0)
        return 1
v = {P()}""",
}


@pytest.mark.parametrize("text", ANSWERS.values(), ids=ANSWERS)
def test_such_an_answer_has_an_end(server, text):
    """It gets no points, and the grader goes on."""
    model = "v = {1}\ndef f(x):\n    return list(range(x))"
    of = source(
        answer("a", model), graded_cell("v", "assert len(v) == 1"), graded_cell("f", "assert list(f(3)) == [0, 1, 2]")
    )
    grader = grader_of(server)
    assert set(points(grader.grade(of, hand_in(of, {"a": text}), {}, 5)).values()) <= {0, None}
    assert set(points(grader.grade(of, hand_in(of), {}, 5)).values()) == {1}
