"""What crosses between the two processes: messages with a deadline and a largest size, plain values, outputs within a budget."""

import socket
import threading
import time

import msgspec
import nbformat
import numpy
import pytest
import torch

from autograder.grade.wire import channel
from autograder.grade.wire.outputs import CUT, Outputs
from autograder.grade.wire.values.array_types import tensors
from autograder.grade.wire.values.codec import Unsendable
from autograder.grade.wire.values.value_table import Values, packed, unpacked


class Note(msgspec.Struct):
    """A message of this test."""

    words: str


@pytest.fixture
def ends():
    """The two ends of a socket."""
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_a_message_arrives_whole(ends):
    """A megabyte, in however many pieces the kernel hands it over."""
    note = Note("a" * (1 << 20))
    sender = threading.Thread(target=channel.send, args=(ends[0], note))
    sender.start()
    received = channel.receive(ends[1], Note, largest=1 << 21)
    sender.join()

    assert note == received


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        pytest.param(channel.HEADER.pack(1 << 40), "more than the 1000 that are allowed", id="too large"),
        pytest.param(channel.HEADER.pack(3) + b"\xc1\xc1\xc1", "not an answer", id="no message"),
        pytest.param(channel.HEADER.pack(1) + msgspec.msgpack.encode(7), "not an answer", id="another form"),
        pytest.param(channel.HEADER.pack(9) + b"half", "has ended", id="cut off"),
        pytest.param(b"", "has ended", id="nothing"),
    ],
)
def test_what_is_no_message_has_a_reason(ends, sent, told):
    """Nothing that the other side sends raises anything but the error whose text is fit for a report."""
    ends[0].sendall(sent)
    ends[0].close()
    with pytest.raises(channel.ChannelError, match=told):
        channel.receive(ends[1], Note, largest=1000)


def test_a_silent_side_is_waited_for_until_the_deadline(ends):
    """Meanwhile somebody looks after the worker's memory."""
    looks = []
    with pytest.raises(channel.ChannelError, match="used up its time"):
        channel.receive(ends[1], Note, largest=10, deadline=time.monotonic() + 0.3, watch=lambda: looks.append(1))
    assert looks


@pytest.mark.parametrize(
    "value",
    [None, True, 3, 2.5, "text", [1, [2.0, "a"]], {"a": (1, 2)}, 1 + 2j, float("inf")],
    ids=repr,
)
def test_plain_values_come_back(value):
    """With their types; they are msgpack on the way."""
    there = msgspec.msgpack.decode(msgspec.msgpack.encode(packed(value)), type=Values)
    assert (type(value), value) == (type(unpacked(there)), unpacked(there))


def test_arrays_come_back_with_their_bytes():
    """dtype, shape and every bit, of tensors and of NumPy's arrays."""
    odd = torch.tensor([[1.5, float("nan")], [-0.0, 3.0]], dtype=torch.bfloat16)
    array = numpy.arange(6, dtype="int16").reshape(2, 3)
    tensor, other = unpacked(msgspec.msgpack.decode(msgspec.msgpack.encode(packed([odd, array])), type=Values))

    assert (torch.bfloat16, (2, 2)) == (tensor.dtype, tuple(tensor.shape))
    assert torch.equal(odd.view(torch.int16), tensor.view(torch.int16))
    assert (array.dtype, array.tolist()) == (other.dtype, other.tolist())
    assert [id(tensor)] == [id(found) for found in tensors([tensor, {"a": 3}])]


@pytest.mark.parametrize(
    "value", [object(), open, {1: lambda: 0}], ids=["an object", "a function", "a function inside"]
)
def test_what_is_no_data_stays(value):
    """Nothing with a behaviour of its own crosses."""
    with pytest.raises(Unsendable):
        packed(value)


def test_outputs_are_nbformats():
    """Streams are joined, a display is renewed in place, and nbformat's own schema accepts all of it."""
    outputs = Outputs(10_000)
    outputs.stream("stdout", "a")
    outputs.stream("stdout", "b\n")
    outputs.stream("stderr", "careful\n")
    outputs.display({"text/plain": "1 %"}, {}, identity="bar")
    outputs.display({"text/plain": "99 %"}, {}, identity="bar", update=True)
    outputs.result({"text/plain": "3"}, {}, 1)
    outputs.error("ValueError", "no", ["line"])
    assert "ab\n" == outputs.text()
    taken = outputs.take()
    cell = nbformat.v4.new_code_cell("x", outputs=[nbformat.from_dict(output) for output in taken], execution_count=1)
    nbformat.validate(nbformat.v4.new_notebook(cells=[cell]))

    assert ["stream", "stream", "display_data", "execute_result", "error"] == [
        output["output_type"] for output in taken
    ]
    assert "99 %" == taken[2]["data"]["text/plain"]
    assert [] == outputs.take()


def test_a_flood_is_cut_and_the_error_kept():
    """Much printing is no fault: the text is cut at the budget, in nbgrader's words, and what ended the cell is still told."""
    outputs = Outputs(100)
    for _ in range(50):
        outputs.stream("stdout", "x" * 10)
    outputs.display({"image/png": "y" * 10_000}, {})
    outputs.error("ZeroDivisionError", "division by zero", [])
    stream, error = outputs.take()

    assert stream["text"].startswith("x" * 100)
    assert len(stream["text"]) <= 100 + len(CUT)
    assert "ZeroDivisionError" == error["ename"]
