"""The messages between a lane and the processes of one submission: these structs in msgpack, never a pickle.

Decoding a message does not run code, and msgspec rejects a message of any other form. A lane sends a batch of requests
at once, and the worker answers each of them in order. Each answer carries the number of its batch, so that a process
forked by a submission cannot insert an answer to a later request.

Calls, reports and programs are those of `autograder.check.subject.call_report`, and recordings those of
`autograder.tape.recording`. They are encoded separately, so that PyTorch is not needed to read a message.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from autograder.grade.wire.limits import Limits
from autograder.locale.messages import Message
from autograder.locale.stored_messages import StoredMessage

Role = Literal["server", "judge server", "planner"]


class Fork(msgspec.Struct, frozen=True):
    """An order to the host to fork a process of this role, whose control socket is sent along as a file descriptor."""

    role: Role
    modules: tuple[str, ...] = ()  # names of modules that the host imports first, once for all its processes


class Order(msgspec.Struct, frozen=True):
    """An order to a server from a lane or the main process."""

    # "greet": answer with one byte, with which the kernel sends the server's process id; "start": fork a worker, whose
    # socket is sent along as a file descriptor; "stop": end the worker and every process that it left behind
    kind: Literal["greet", "start", "stop"]
    limits: Limits | None = None  # of the worker to start


class Ready(msgspec.Struct, frozen=True):
    """The answer of a server to every order."""

    has_namespaces: bool  # whether each worker gets its own namespaces
    problem: str | None = None  # the reason why the worker could not be started; None if it was started


LONGEST_REASON = 4000  # characters
LONGEST_PRINT = 1 << 18
OTHER_REQUEST = Message("grade.other_request|it answered a different request")
Reason = Annotated[str, msgspec.Meta(max_length=LONGEST_REASON)]
"""A string of the worker that may be stored in a grade; a message with a longer one is rejected."""


def shortened(reason: str) -> str:
    """Return a text that is short enough for a reason; a message that is short enough stays a message."""
    return reason if len(reason) <= LONGEST_REASON else reason[:LONGEST_REASON]


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """The first request: write these files, given by relative path, and set the limits."""

    files: dict[str, bytes]  # the submitted files apart from the notebook
    cell_seconds: float  # time limit of one cell, and of one call
    output_bytes: int  # limit of the outputs of all cells together
    # the recordings of the demonstrations of the source, as returned by `RecordingCache.encoded`
    recordings: bytes = b""
    language: str = "en"  # language of a judge's messages
    seed: int | None = None  # seed of a judge's random generators; None does not seed them


class RunCell(msgspec.Struct, frozen=True, tag="run"):
    """Run the code of one cell. The answer is CellRan."""

    text: str


class MakeCall(msgspec.Struct, frozen=True, tag="call"):
    """Make a call for a check, unless an earlier call of the group had a problem. The answer is Returned."""

    name: str  # name of the function or class
    call: bytes | None  # a Call in msgpack; None runs and records the function without arguments
    group: int  # number of a group of calls; their function is looked up once and kept for recordings


class DescribeName(msgspec.Struct, frozen=True, tag="describe"):
    """Describe the object to which a name refers now. The answer is NameDescription."""

    name: str


class CallStudent(msgspec.Struct, frozen=True, tag="invoke"):
    """Call a function with plain values, as a test does. The answer is Returned."""

    name: str
    arguments: bytes  # a tuple and a dictionary, encoded together by `plain_values.encode`


class Attempt(msgspec.Struct, frozen=True):
    """A call that gave a wrong answer, to be recorded; if `call` is None, a program without arguments."""

    group: int
    call: bytes | None
    knows_gradients: bool = False


class RecordAttempt(msgspec.Struct, frozen=True, tag="record"):
    """Record a wrong answer within this time. The answer is Recorded."""

    attempt: Attempt
    seconds: float


class ListRecordings(msgspec.Struct, frozen=True, tag="recordings"):
    """Send the recordings of the demonstrations that have run. The answer is Recorded."""


class RunTest(msgspec.Struct, frozen=True, tag="test"):
    """Run a plain-data test in a judge. The answer is TestRan, after any number of Asked."""

    text: str  # code of the test
    names: dict[str, NameDescription]  # the student's objects that the test uses, by name
    modules: dict[str, str]  # the modules that the test uses under a name of the student, by that name
    seed: int  # seed from which the inputs of the test are drawn
    hidden_lines: list[tuple[int, int]]  # pairs of the first and the last line of each hidden part
    execution_count: int  # execution count of its cell in the notebook


class Replied(msgspec.Struct, frozen=True, tag="replied"):
    """The reply of the lane to Asked: the answer of the worker, or None with a reason and its message."""

    answer: Answer | None
    reason: str = ""
    messages: tuple[StoredMessage, ...] = ()


class CellRan(msgspec.Struct, frozen=True, tag="ran"):
    """The outputs of a cell as JSON in nbformat's form, and the type name and message of the error that ended it."""

    outputs: bytes
    error: tuple[Reason, Reason] | None = None
    points: float | None = None


class NameDescription(msgspec.Struct, frozen=True, tag="described"):
    """The object to which a name refers."""

    kind: Literal["absent", "function", "class", "module", "data"]
    type_name: Reason = ""
    value: bytes = b""  # value of a data object, as returned by `plain_values.encode`
    unsendable: Reason | None = None  # the reason why the object has no plain value; None if it has one
    text: str | None = None  # definition of a function in the notebook, which the lane adds; None if no cell defines it


class Returned(msgspec.Struct, frozen=True, tag="returned"):
    """The result of a call in msgpack: a Report, a ProgramText, or a FunctionReply for CallStudent."""

    data: bytes


class Recorded(msgspec.Struct, frozen=True, tag="kept"):
    """Recordings in msgpack; b"" for an attempt that could not be recorded. The lane checks their form before it uses them."""

    data: bytes


class Asked(msgspec.Struct, frozen=True, tag="ask"):
    """A request of the judge that the lane passes to the worker; the lane returns the answer as Replied."""

    request: MakeCall | DescribeName | CallStudent


class TestRan(msgspec.Struct, frozen=True, tag="tested"):
    """The result of a plain-data test."""

    outputs: bytes  # as in CellRan
    status: Literal["passed", "incorrect", "not attempted", "timed out", "not judged"]  # the way the test ended
    points: float | None = None  # points from the last line of the test; None for full points
    reason: Reason = ""  # reason why points are missing, for the student
    messages: tuple[StoredMessage, ...] = ()  # the message of the reason, if it is one
    is_hidden: bool = False  # whether the reason comes from a hidden part
    line: int | None = None  # line of the test at which an error ended it


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The request was carried out."""


class Failure(msgspec.Struct, frozen=True, tag="failed"):
    """The request was not answered: the name does not exist, the time was up, or an earlier call had a problem."""

    reason: Reason


Request = Begin | RunCell | MakeCall | DescribeName | CallStudent | RecordAttempt | ListRecordings | RunTest | Replied
Answer = CellRan | NameDescription | Returned | Recorded | Asked | TestRan | Done | Failure


class Batch(msgspec.Struct, frozen=True):
    """Requests with the number of their batch."""

    number: int
    requests: list[Request]


class Reply(msgspec.Struct, frozen=True):
    """An answer with the number of its batch."""

    number: int
    answer: Answer
