"""The messages between a lane and the processes of one submission: msgpack of these structs, never a pickle.

Decoding a message runs no code, and a message of another form is refused (msgspec checks the types). A lane sends a batch of
requests at once; the worker answers each, in order. Each answer carries the number of its batch, so that a process forked by a
submission cannot slip in an answer to a later one.

Calls, reports and programs are those of `autograder.check.subject.call_report`, and recordings those of
`autograder.tape.recording`; they are encoded once more, so that reading a message needs no PyTorch.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from autograder.grade.wire.limits import Limits

Role = Literal["server", "judge server", "planner"]


class Fork(msgspec.Struct, frozen=True):
    """An order to the host: fork a process with this role; its control socket is sent along as a file descriptor."""

    role: Role


class Greet(msgspec.Struct, frozen=True, tag="greet"):
    """An order to a server: answer with one byte, with which the kernel sends the id of the server's process."""


class Start(msgspec.Struct, frozen=True, tag="start"):
    """An order to a server: fork a worker, whose socket is sent along as a file descriptor.

    Attributes:
        limits: the resources that the worker may use.
        modules: to import first, for this worker and all later ones.
    """

    limits: Limits
    modules: tuple[str, ...] = ()


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """An order to a server: end the worker and every process that it left behind."""


class Order(msgspec.Struct, frozen=True):
    """The message by which a lane, or the main process, gives an order to a server."""

    order: Greet | Start | Stop


class Ready(msgspec.Struct, frozen=True):
    """The answer of a server to every order.

    Attributes:
        has_namespaces: whether each worker gets namespaces of its own.
        problem: why the worker could not be started; None if it was.
    """

    has_namespaces: bool
    problem: str | None = None


LONGEST_REASON = 4000  # characters
LONGEST_PRINT = 1 << 18
Reason = Annotated[str, msgspec.Meta(max_length=LONGEST_REASON)]
"""A text of the worker's that may be stored in a grade; a message with a longer one is refused."""
Printed = Annotated[str, msgspec.Meta(max_length=2 * LONGEST_PRINT)]


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """The first request: write these files, by relative path, and set the limits.

    Attributes:
        files: beside the notebook.
        cell_seconds: time limit of one cell, and of one call.
        output_bytes: limit of the outputs of all cells together.
        recordings: of the source's own demonstrations, as `KeptRecordings.encoded` returns them.
        language: of a judge's messages.
        seed: of a judge's random generators; None leaves them as they are.
    """

    files: dict[str, bytes]
    cell_seconds: float
    output_bytes: int
    recordings: bytes = b""
    language: str = "en"
    seed: int | None = None


class RunCell(msgspec.Struct, frozen=True, tag="run"):
    """Run one cell's text; answered by CellRan."""

    text: str


class MakeCall(msgspec.Struct, frozen=True, tag="call"):
    """Make a call that a check asks for; answered by CallMade, or by Skipped if an earlier call of the group had a problem.

    Attributes:
        name: of the function or class.
        call: a Call as msgpack.
        group: of calls whose function is looked up once and kept for recordings.
    """

    name: str
    call: bytes
    group: int


class RunProgram(msgspec.Struct, frozen=True, tag="program"):
    """Run and record a function without arguments; answered by ProgramRan."""

    name: str
    group: int


class DescribeName(msgspec.Struct, frozen=True, tag="describe"):
    """Describe the object that a name refers to now; answered by NameDescription."""

    name: str


class CallStudent(msgspec.Struct, frozen=True, tag="invoke"):
    """Call a function with plain values, as a test does; answered by StudentReturned.

    Attributes:
        arguments: a tuple and a dictionary, as `plain_values.encode` returns them together.
    """

    name: str
    arguments: bytes


class Attempt(msgspec.Struct, frozen=True):
    """A call that gave a wrong answer, or a program without arguments if `call` is None, for its recording."""

    group: int
    call: bytes | None
    knows_gradients: bool = False


class RecordAttempts(msgspec.Struct, frozen=True, tag="record"):
    """Record wrong answers in one fork, with these limits; answered by Recorded."""

    attempts: list[Attempt]
    seconds: float
    spared_bytes: int


class ListRecordings(msgspec.Struct, frozen=True, tag="recordings"):
    """Send the recordings of the demonstrations that have run; answered by Recorded."""


class RunTest(msgspec.Struct, frozen=True, tag="test"):
    """Run a plain-data test in a judge; answered by TestRan, after any number of Asked.

    Attributes:
        text: of the test.
        names: the student's names that it uses.
        modules: the modules that it uses by a name of the student's.
        seed: from which its inputs are drawn.
        seconds: time limit of the whole test.
        hidden_lines: pairs of first and last line of its hidden parts.
        picture_seconds: for recordings of wrong answers that its checks ask for.
        execution_count: of its cell in the notebook.
    """

    text: str
    names: dict[str, NameDescription]
    modules: dict[str, str]
    seed: int
    seconds: float
    hidden_lines: list[tuple[int, int]]
    picture_seconds: float
    execution_count: int


class Replied(msgspec.Struct, frozen=True, tag="replied"):
    """The lane's reply to Asked: the worker's answer, encoded; None with a reason if there is no answer."""

    answer: bytes | None
    reason: str = ""
    has_ended: bool = False


class CellRan(msgspec.Struct, frozen=True, tag="ran"):
    """A cell's outputs as JSON in nbformat's form, and the type name and text of the error that ended it."""

    outputs: bytes
    error: tuple[Reason, Reason] | None = None
    points: float | None = None


class NameDescription(msgspec.Struct, frozen=True, tag="described"):
    """The object that a name refers to.

    Attributes:
        value: of a data object, as `plain_values.encode` returns it.
        unsendable: why it has no such value; None if it has.
        description: of a function, as `student_functions` makes it, as msgpack.
    """

    kind: Literal["absent", "function", "class", "module", "data"]
    type_name: Reason = ""
    value: bytes = b""
    unsendable: Reason | None = None
    description: bytes = b""


class CallMade(msgspec.Struct, frozen=True, tag="reported"):
    """A Report as msgpack."""

    report: bytes


class ProgramRan(msgspec.Struct, frozen=True, tag="recorded"):
    """A ProgramText as msgpack."""

    program: bytes


class StudentReturned(msgspec.Struct, frozen=True, tag="returned"):
    """The reply of a student's function, as `student_functions` makes it, as msgpack."""

    reply: bytes


class Recorded(msgspec.Struct, frozen=True, tag="kept"):
    """Recordings, as msgpack; b"" for an attempt that could not be recorded. The lane checks their form before it uses them."""

    recordings: list[bytes]


class Asked(msgspec.Struct, frozen=True, tag="ask"):
    """The judge asks the lane to send this request to the worker, and to send back the answer as Replied."""

    request: MakeCall | RunProgram | DescribeName | CallStudent | RecordAttempts


class TestRan(msgspec.Struct, frozen=True, tag="tested"):
    """A plain-data test has run.

    Attributes:
        outputs: as in CellRan.
        status: how it ended.
        points: that the test's last line gives; None for all.
        reason: why points are missing, in words for the student.
        is_hidden: whether the reason comes from a hidden part.
        line: of the test, at which it ended with an error.
        wrote_arguments: whether a student's function wrote into an argument of the test's.
    """

    outputs: bytes
    status: Literal["passed", "incorrect", "not attempted", "timed out", "not judged"]
    points: float | None = None
    reason: Reason = ""
    is_hidden: bool = False
    line: int | None = None
    wrote_arguments: bool = False


class Skipped(msgspec.Struct, frozen=True, tag="skipped"):
    """An earlier call of the same group had a problem, so this one was not made."""


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The request was obeyed."""


class Failure(msgspec.Struct, frozen=True, tag="failed"):
    """The request could not be answered: the name does not exist, or the time was up."""

    reason: Reason


Request = (
    Begin
    | RunCell
    | MakeCall
    | RunProgram
    | DescribeName
    | CallStudent
    | RecordAttempts
    | ListRecordings
    | RunTest
    | Replied
)
Answer = (
    CellRan
    | NameDescription
    | CallMade
    | ProgramRan
    | StudentReturned
    | Recorded
    | Asked
    | TestRan
    | Skipped
    | Done
    | Failure
)


class Batch(msgspec.Struct, frozen=True):
    """Requests with the number of their batch."""

    number: int
    requests: list[Request]


class Reply(msgspec.Struct, frozen=True):
    """An answer with the number of its batch."""

    number: int
    answer: Answer
