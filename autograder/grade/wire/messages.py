"""What crosses between the trusted grader and a submission's worker: msgpack of these structs, never a pickle.

Reading a message runs no code, and a message of another form is refused (msgspec checks the types). Each answer names
the question that it belongs to, so that a process forked by a submission cannot slip in an answer to the next one.
"""

from __future__ import annotations

from typing import Any

import msgspec

from autograder.check.subject.call_report import Call, ProgramText, Report


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """First message: the files beside the notebook by relative path, and what stands in for the kernel's environment."""

    files: dict[str, bytes]
    cell_seconds: float
    output_bytes: int


class RunCell(msgspec.Struct, frozen=True, tag="run"):
    """Run one cell's text."""

    text: str


class Describe(msgspec.Struct, frozen=True, tag="describe"):
    """Say what a name means now, and send its value where that is data."""

    name: str


class AskCall(msgspec.Struct, frozen=True, tag="call"):
    """Make the call that a check asks for."""

    name: str
    call: Call


class AskProgram(msgspec.Struct, frozen=True, tag="program"):
    """Run and record the program without arguments."""

    name: str


class Invoke(msgspec.Struct, frozen=True, tag="invoke"):
    """Call a function with plain arguments, as an assertion of a grade cell does."""

    name: str
    arguments: list[Any]
    keywords: dict[str, Any]


class Pull(msgspec.Struct, frozen=True, tag="pull"):
    """Pull a gradient back through what an earlier invocation returned: cotangents of some of its tensors, by position."""

    invocation: int
    cotangents: dict[int, Any]


class Ran(msgspec.Struct, frozen=True, tag="ran"):
    """A cell's outputs as JSON in nbformat's form, and its execution count."""

    outputs: bytes
    execution_count: int


class Described(msgspec.Struct, frozen=True, tag="described"):
    """What a name means: "absent", "function", "class", "data" or "other"; `value` only for data."""

    kind: str
    type_name: str = ""
    value: Any = None


class Reported(msgspec.Struct, frozen=True, tag="reported"):
    """The report of a call."""

    report: Report


class Recorded(msgspec.Struct, frozen=True, tag="recorded"):
    """What recording a program came to."""

    program: ProgramText


class Returned(msgspec.Struct, frozen=True, tag="returned"):
    """What a function returned, or the exception it raised.

    Attributes:
        value: spelled as plain data; tensors that depend on the arguments through autograd are numbered by `differentiable`.
        arguments: the positional arguments as the call left them, `keywords` those by name.
        invocation: a number for pulling gradients back later.
        differentiable: which tensors of the value, counted in order, autograd can differentiate.
        printed: what it wrote to stdout.
        error: the exception's type, "" where none was raised, and its `message`.
        unsendable: why the value cannot cross, "" where it can.
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


class Pulled(msgspec.Struct, frozen=True, tag="pulled"):
    """The gradients of the invocation's tensor arguments, in order; None where none arrived; or backward's error."""

    gradients: list[Any] = []
    error: str = ""
    message: str = ""


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The question could not be answered: the name is missing, or the time was up."""

    reason: str


Request = Begin | RunCell | Describe | AskCall | AskProgram | Invoke | Pull
Answer = Ran | Described | Reported | Recorded | Returned | Pulled | Failed


class Question(msgspec.Struct, frozen=True):
    """A request with its number."""

    number: int
    request: Request


class Reply(msgspec.Struct, frozen=True):
    """An answer with the number of its question."""

    number: int
    answer: Answer
