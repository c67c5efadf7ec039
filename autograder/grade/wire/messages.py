"""The messages between the trusted grader and a submission's worker: msgpack of these structs, never a pickle.

Reading a message runs no code, and a message of another form is refused (msgspec checks the types). Each answer carries the
number of its question, so that a process forked by a submission cannot slip in an answer to the next one.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from autograder.check.subject.call_report import Call, ProgramText, Report
from autograder.grade.wire.shared.warnings_given import MOST as MOST_WARNINGS
from autograder.grade.wire.shared.warnings_given import GivenWarning
from autograder.grade.wire.values.message_form import Values

LONGEST_REASON = 2000  # characters
LONGEST_PRINT = 1 << 18
Reason = Annotated[str, msgspec.Meta(max_length=LONGEST_REASON)]
"""Words of the worker's that may be stored in a grade; a longer text is no message."""


class BeginSubmission(msgspec.Struct, frozen=True, tag="begin"):
    """The first request: write these files, by relative path, and set the limits of this submission.

    Attributes:
        files: what was submitted beside the notebook.
        cell_seconds: time limit of one cell, and of one call.
        output_bytes: limit of the outputs of all cells together.
        recordings: what the source's own demonstrations recorded, as `KeptRecordings.encoded` returns it.
    """

    files: dict[str, bytes]
    cell_seconds: float
    output_bytes: int
    recordings: bytes = b""


class RunCell(msgspec.Struct, frozen=True, tag="run"):
    """Run one cell's text."""

    text: str


class AskName(msgspec.Struct, frozen=True, tag="describe"):
    """Say what a name refers to now; with `start`, how many values of the table both sides know, send it, too.

    `begins` says that a test begins, for which nothing has been looked up; `shared` are the classes that both sides have.
    """

    name: str
    start: int | None = None
    begins: bool = False
    shared: list[str] = []


class AskCall(msgspec.Struct, frozen=True, tag="call"):
    """Make the call that a check asks for."""

    name: str
    call: Call


class AskAttempt(msgspec.Struct, frozen=True, tag="attempt"):
    """Record a call that gave a wrong answer, for its picture; `seconds` and memory are not all that the submission has."""

    name: str
    call: Call
    seconds: float
    spared_bytes: int
    knows_gradients: bool = False


class AskProgram(msgspec.Struct, frozen=True, tag="program"):
    """Run and record a function without arguments."""

    name: str


class AskOperation(msgspec.Struct, frozen=True, tag="operate"):
    """Do something with the learner's objects: call one, read an attribute, iterate.

    Attributes:
        operation: "call", "getattr", "setattr", "delattr", or the name of a special method.
        operands: four values: a tuple of the operands, the names that the test has bound or deleted, random states, and
            settings that the test has changed.
        start: how many values of the table both sides still know.
        files: those that the test wrote, by name; None for one that it deleted.
        hears_warnings: whether the test listens to warnings.
    """

    operation: str
    operands: Values
    start: int
    files: dict[str, bytes | None] = {}
    hears_warnings: bool = False


class AskGradients(msgspec.Struct, frozen=True, tag="pull"):
    """Run backward through what an earlier operation returned.

    Attributes:
        invocation: its number.
        cotangents: two values: the positions of some returned tensors, and their gradients.
        start: how many values of the table both sides still know.
    """

    invocation: int
    cotangents: Values
    start: int


class AskRecordings(msgspec.Struct, frozen=True, tag="recordings"):
    """Send the recordings of the demonstrations that have run."""


class CallbackReturned(msgspec.Struct, frozen=True, tag="callback returned"):
    """What the test's own function returned or raised, which the learner's code had called.

    Attributes:
        start: how many values of the table both sides still know: the function may have asked for more than they keep.
    """

    value: Values
    start: int
    raised: bool = False


class CellOutputs(msgspec.Struct, frozen=True, tag="ran"):
    """A cell's outputs as JSON in nbformat's form, and its execution count."""

    outputs: bytes
    execution_count: int


class NameDescription(msgspec.Struct, frozen=True, tag="described"):
    """What a name refers to: "absent", "function", "class", "data" or "other".

    Attributes:
        value: what it refers to.
        unsendable: why that cannot be sent, "" if it can.
    """

    kind: Reason
    type_name: Reason = ""
    value: Values = Values()
    unsendable: Reason = ""


class CallAnswer(msgspec.Struct, frozen=True, tag="reported"):
    """What a call did."""

    report: Report


class ProgramAnswer(msgspec.Struct, frozen=True, tag="recorded"):
    """What recording a program found."""

    program: ProgramText


class Recordings(msgspec.Struct, frozen=True, tag="kept"):
    """The recordings of demonstrations, as `KeptRecordings.encoded` returns them; the grader does not look into them."""

    encoded: bytes


class AttemptAnswer(msgspec.Struct, frozen=True, tag="attempted"):
    """The recording of a call as msgpack, b"" where there is none. The grader checks its form before it uses it."""

    recording: bytes


class Returned(msgspec.Struct, frozen=True, tag="returned"):
    """What an operation returned or raised.

    Attributes:
        value: two values: the result or the exception, and the names that it bound again.
        raised: whether it is an exception.
        invocation: a number for asking for gradients later.
        differentiable: positions of the result's tensors that came out of operations on tensors that require grad.
        printed: what the learner's code wrote to stdout.
        unsendable: why the result cannot be sent, "" if it can.
        files: those that the learner's code wrote, by name; None for one that it deleted.
        drew: whether it drew random numbers after the test has set a seed.
        warnings: that it gave, where the test listens to them.
    """

    value: Values = Values()
    raised: bool = False
    invocation: int = 0
    differentiable: list[int] = []
    printed: Annotated[str, msgspec.Meta(max_length=2 * LONGEST_PRINT)] = ""
    unsendable: Reason = ""
    files: dict[str, bytes | None] = {}
    drew: bool = False
    warnings: Annotated[list[GivenWarning], msgspec.Meta(max_length=MOST_WARNINGS)] = []


class CallbackAsked(msgspec.Struct, frozen=True, tag="call back"):
    """The learner's code calls a function that the test gave it; the operation waits for what it returns.

    Attributes:
        callback: the function's number.
        arguments: two values: a tuple, and a dictionary of the arguments by name.
    """

    callback: int
    arguments: Values


class Failure(msgspec.Struct, frozen=True, tag="failed"):
    """The request could not be answered: the name does not exist, or the time was up."""

    reason: Reason


Request = (
    BeginSubmission
    | RunCell
    | AskName
    | AskCall
    | AskAttempt
    | AskProgram
    | AskOperation
    | AskGradients
    | AskRecordings
    | CallbackReturned
)
Answer = (
    CellOutputs
    | NameDescription
    | CallAnswer
    | AttemptAnswer
    | ProgramAnswer
    | Recordings
    | Returned
    | CallbackAsked
    | Failure
)


class Question(msgspec.Struct, frozen=True):
    """A request with its number."""

    number: int
    request: Request


class Reply(msgspec.Struct, frozen=True):
    """An answer with the number of its question."""

    number: int
    answer: Answer
