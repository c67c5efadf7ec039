"""The messages between the trusted grader and a submission's worker: msgpack of these structs, never a pickle.

Reading a message runs no code, and a message of another form is refused (msgspec checks the types). Each answer carries the
number of its question, so that a process forked by a submission cannot slip in an answer to the next one.
"""

from __future__ import annotations

from typing import Any

import msgspec

from autograder.check.subject.call_report import Call, ProgramText, Report


class BeginSubmission(msgspec.Struct, frozen=True, tag="begin"):
    """The first request: write these files, by relative path, and set the limits of this submission.

    Attributes:
        files: what was submitted beside the notebook.
        cell_seconds: time limit of one cell, and of one call.
        output_bytes: limit of the outputs of all cells together.
    """

    files: dict[str, bytes]
    cell_seconds: float
    output_bytes: int


class RunCell(msgspec.Struct, frozen=True, tag="run"):
    """Run one cell's text."""

    text: str


class AskName(msgspec.Struct, frozen=True, tag="describe"):
    """Say what a name refers to now, and send its value if that is data."""

    name: str


class AskCall(msgspec.Struct, frozen=True, tag="call"):
    """Make the call that a check asks for."""

    name: str
    call: Call


class AskProgram(msgspec.Struct, frozen=True, tag="program"):
    """Run and record a function without arguments."""

    name: str


class AskInvocation(msgspec.Struct, frozen=True, tag="invoke"):
    """Call a function with plain arguments, as an assertion of a grade cell does."""

    name: str
    arguments: list[Any]
    keywords: dict[str, Any]


class AskGradients(msgspec.Struct, frozen=True, tag="pull"):
    """Run backward through what an earlier invocation returned.

    Attributes:
        invocation: its number.
        cotangents: the gradients of some of the returned tensors, by position.
    """

    invocation: int
    cotangents: dict[int, Any]


class CellOutputs(msgspec.Struct, frozen=True, tag="ran"):
    """A cell's outputs as JSON in nbformat's form, and its execution count."""

    outputs: bytes
    execution_count: int


class NameDescription(msgspec.Struct, frozen=True, tag="described"):
    """What a name refers to: "absent", "function", "class", "data" or "other".

    Attributes:
        value: the data; for "other", why it cannot be sent.
    """

    kind: str
    type_name: str = ""
    value: Any = None


class CallAnswer(msgspec.Struct, frozen=True, tag="reported"):
    """What a call did."""

    report: Report


class ProgramAnswer(msgspec.Struct, frozen=True, tag="recorded"):
    """What recording a program found."""

    program: ProgramText


class ReturnValue(msgspec.Struct, frozen=True, tag="returned"):
    """What a function returned, or the exception it raised.

    Attributes:
        value: in the form of `wire_values`.
        arguments: the positional arguments after the call; `keywords` are those by name.
        invocation: a number for asking for gradients later.
        differentiable: positions of the value's tensors that require grad.
        printed: what the function wrote to stdout.
        error: the exception's type, "" if none was raised, and its `message`.
        unsendable: why the value cannot be sent, "" if it can.
    """

    value: Any = None
    arguments: list[Any] = []
    keywords: dict[str, Any] = {}
    invocation: int = 0
    differentiable: list[int] = []
    printed: str = ""
    error: str = ""
    message: str = ""
    unsendable: str = ""


class GradientAnswer(msgspec.Struct, frozen=True, tag="pulled"):
    """The gradients of the invocation's tensor arguments, in order, None where none arrived; or the error of backward."""

    gradients: list[Any] = []
    error: str = ""
    message: str = ""


class Failure(msgspec.Struct, frozen=True, tag="failed"):
    """The request could not be answered: the name does not exist, or the time was up."""

    reason: str


Request = BeginSubmission | RunCell | AskName | AskCall | AskProgram | AskInvocation | AskGradients
Answer = CellOutputs | NameDescription | CallAnswer | ProgramAnswer | ReturnValue | GradientAnswer | Failure


class Question(msgspec.Struct, frozen=True):
    """A request with its number."""

    number: int
    request: Request


class Reply(msgspec.Struct, frozen=True):
    """An answer with the number of its question."""

    number: int
    answer: Answer
