"""The data between the two processes: messages with a deadline and a size limit, plain values, outputs within a budget."""

import random
import resource
import socket
import threading
import time

import msgspec
import nbformat
import pytest

from autograder.grade.sandbox.shell import replaced_modules
from autograder.grade.wire import channel
from autograder.grade.wire.channel import has_more_items
from autograder.grade.wire.outputs import CUT, Outputs


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


@pytest.mark.parametrize(("sent", "told"), [
    pytest.param(channel.HEADER.pack(1 << 40), "more than the 1000 that are allowed", id="too large"),
    pytest.param(channel.HEADER.pack(3) + b"\xc1\xc1\xc1", "not a valid answer", id="no message"),
    pytest.param(channel.HEADER.pack(1) + msgspec.msgpack.encode(7), "not a valid answer", id="another form"),
    pytest.param(channel.HEADER.pack(9) + b"half", "exited or was killed", id="cut off"),
    pytest.param(b"", "exited or was killed", id="nothing"),
])  # fmt: skip
def test_what_is_no_message_has_a_reason(ends, sent, told):
    """Whatever the other side sends, the only error is the one whose message fits a report."""
    ends[0].sendall(sent)
    ends[0].close()
    with pytest.raises(channel.ChannelError, match=told):
        channel.receive(ends[1], Note, largest=1000)


def test_a_silent_side_is_waited_for_until_the_deadline(ends):
    """Meanwhile somebody looks after the worker's memory."""
    looks = []
    with pytest.raises(channel.ChannelError, match="exceeded its time limit"):
        channel.receive(ends[1], Note, largest=10, deadline=time.monotonic() + 0.3, watch=lambda: looks.append(1))
    assert looks


def test_a_side_that_sends_a_byte_now_and_then_is_watched(ends):
    """It never leaves the receiver waiting, and is looked at and ended all the same."""
    looks = []

    def watch():
        looks.append(1)
        if len(looks) == 4:
            raise channel.ChannelError("it exceeded its time limit")

    ends[0].sendall(channel.HEADER.pack(1000) + b"x")
    sender = threading.Thread(target=lambda: [time.sleep(0.02 * ends[0].send(b"x")) for _ in range(50)])
    sender.start()
    with pytest.raises(channel.ChannelError, match="exceeded its time limit"):
        channel.receive(ends[1], Note, largest=1000, watch=watch)
    assert sender.is_alive()
    sender.join()


def test_a_side_that_does_not_read_is_watched(ends):
    """What is sent to it fills the socket, and the watch ends the wait; one that reads slowly gets all of it."""
    end = time.monotonic() + 0.3

    def watch():
        if time.monotonic() > end:
            raise channel.ChannelError("it exceeded its time limit")

    with pytest.raises(channel.ChannelError, match="exceeded its time limit"):
        channel.send(ends[0], Note("a" * (1 << 22)), watch=watch)


def test_a_side_that_reads_slowly_gets_everything(ends):
    """Though the timeout of the socket, from an earlier message, is shorter than it takes."""
    note, received = Note("a" * (1 << 22)), []
    ends[0].settimeout(0.05)
    sender = threading.Thread(target=channel.send, args=(ends[0], note))
    sender.start()
    time.sleep(0.3)
    received.append(channel.receive(ends[1], Note, largest=1 << 23))
    sender.join()
    assert [note] == received


def counted(value) -> int:
    """Return how many values there are in plain data, itself included."""
    inner = [*value.keys(), *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return 1 + sum(counted(one) for one in inner)


def made_up(chance, depth):
    """Return plain data with values of every form and length that msgpack has."""
    sizes = [0, 1, 15, 16, 31, 32, 255, 256, 65_535, 65_536]
    forms = [
        lambda: chance.choice([None, True, False, 0.5]),
        lambda: chance.choice([-1, 1]) * (2 ** chance.randrange(63) + chance.randrange(2)),
        lambda: "x" * chance.choice(sizes),
        lambda: b"x" * chance.choice(sizes),
        lambda: [made_up(chance, depth - 1) for _ in range(chance.choice([0, 1, 15, 16]))],
        lambda: {str(n): made_up(chance, depth - 1) for n in range(chance.choice([0, 1, 15, 16]))},
        lambda: [0] * chance.choice(sizes),
    ]
    return chance.choice(forms if depth else forms[:4])()


def test_the_values_in_a_message_are_counted_without_building_them():
    """As many as there are when it is decoded, for forms and lengths of every kind."""
    chance = random.Random(5)
    for _ in range(60):
        value = made_up(chance, 3)
        payload, count = msgspec.msgpack.encode(value), counted(msgspec.msgpack.decode(msgspec.msgpack.encode(value)))
        assert (True, False) == (has_more_items(payload, count - 1), has_more_items(payload, count))


@pytest.mark.parametrize("payload", [
    pytest.param(b"\xdd\x03\x00\x00\x00" + b"\x90" * (3 << 24), id="many small lists"),
    pytest.param(b"\xdd\xff\xff\xff\xff\xc0", id="a length without values"),
    pytest.param(b"\x91" * (1 << 24), id="a list in a list"),
    pytest.param(b"\xdf\x00\x80\x00\x00" + b"\x00\x80" * (1 << 23), id="a large map"),
])  # fmt: skip
def test_too_many_values_are_refused_before_they_take_memory(ends, payload):
    """A message of tens of megabytes that would take gigabytes is refused, and the process does not grow by its values."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sender = threading.Thread(target=ends[0].sendall, args=(channel.HEADER.pack(len(payload)) + payload,))
    sender.start()
    with pytest.raises(channel.ChannelError, match="more than 1000000 values"):
        channel.receive(ends[1], Note, largest=1 << 26, most_items=1_000_000)
    sender.join()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 * len(payload) // 1024 + 100_000


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
    """Much output is not an error: the text is cut at the budget, with nbgrader's message, and the error of the cell is kept."""
    outputs = Outputs(100)
    for _ in range(50):
        outputs.stream("stdout", "x" * 10)
    outputs.display({"image/png": "y" * 10_000}, {})
    outputs.error("ZeroDivisionError", "division by zero", [])
    stream, error = outputs.take()

    assert stream["text"].startswith("x" * 100)
    assert len(stream["text"]) <= 100 + len(CUT)
    assert "ZeroDivisionError" == error["ename"]


def test_a_file_with_the_name_of_a_library_replaces_it_but_not_this_package():
    """A student's helper module is imported instead of an installed one; `autograder` runs the worker and stays."""
    assert {"scipy", "mine"} == replaced_modules(
        ["scipy.py", "mine/__init__.py", "autograder.py", "autograder/__init__.py"]
    )
