"""The verdict on a run: outcome, harmful modifications, gradients compared with the correct ones, and fixes."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from autograder.locale.messages import Message, join_messages
from autograder.locale.stored_messages import StoredMessage

Outcome = Literal["raises-forward", "raises-backward", "correct", "silently-wrong"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class Place(msgspec.Struct, frozen=True):
    """A line of the user's code. `line` is 1-based, `text` has no indentation."""

    file: str
    line: int
    text: str


def line_of(place: Place, file: str) -> str:
    """Return "line 12", or "layers.py, line 12" if the line is not in `file`."""
    if place.file == file:
        return Message("place.line|line {line}", line=place.line)
    return Message("place.in_file|{file}, line {line}", file=place.file, line=place.line)


def note_on_line(place: Place, file: str, sentence: str) -> str:
    """Return a note that starts with the line number, or with file and line number if the line is not in `file`."""
    if place.file == file:
        return Message("note.of_line|Line {line}: {told}", line=place.line, told=sentence)
    return Message("note.of_line_in_file|{file}, line {line}: {told}", file=place.file, line=place.line, told=sentence)


class Problem(msgspec.Struct, frozen=True):
    """The exception that ended the program."""

    type: str
    message: str
    line: int | None  # innermost line of the user's code, or None if the traceback contains no such line
    file: str = ""  # the file of that line, as in `Place.file`; "" if unknown, which means the program's own file

    def is_in(self, file: str) -> bool:
        """Return whether the error was raised in this file."""
        return self.line is not None and self.file in ("", file)

    def place(self, script: str) -> Place | None:
        """Return the line that raised the error, or None if it is unknown. `script` is the name of the program's file."""
        return Place(self.file or script, self.line, "") if self.line else None

    def is_at(self, place: Place) -> bool:
        """Return whether this line raised the error."""
        return self.is_in(place.file) and self.line == place.line


class Harm(msgspec.Struct, frozen=True):
    """A saved tensor that was modified in place before backward used it, even if PyTorch did not raise an error."""

    tensor: str  # name of the saved tensor
    mutated_at: tuple[Place, ...]  # lines of the modifications, in order of execution
    through: str | None  # name of the modified alias, if it is another object
    saved_at: Place
    saved_by: str
    saved_version: int | None
    version_now: int | None
    bytes_changed: bool
    # id of the SavedEdge, or None if no node saved the tensor (for example a tensor stored on the ctx of a custom
    # Function)
    edge: int | None = None
    kind: str = ""  # name of the harm kind; "" in recordings of release 0.1.0
    explanation: str = ""  # the meaning of the harm kind, as a sentence; "" in recordings of release 0.1.0


class Gradient(msgspec.Struct, frozen=True):
    """The gradient of a leaf after this run and the correct one, as nested lists; None if there is none, or it is unknown."""

    got: list[Any] | float | None
    true: list[Any] | float | None
    unlisted: int = 0  # number of elements, if there are too many to list and `got` is None for that reason; else 0
    # relative error (2-norm of the difference divided by the 2-norm of the correct gradient, or by the largest one of
    # the same backward if it is zero up to rounding), such as 0.5; None if unknown, or if the correct gradient is
    # exactly zero and the gradient of this run is not
    off: float | None = None
    # the derivative of the loss as computed, if an unrecorded modification makes it differ from `true`, the derivative
    # of the program without that modification; else None
    ran: list[Any] | float | None = None
    # number of leaves that the program made under this name, one after the other, if there are several. The gradient is
    # that of the decisive backward call, else of the last leaf.
    rounds: int | msgspec.UnsetType = msgspec.UNSET
    # True if `autograd.grad` returned this gradient, which is then not in the leaf's `.grad`
    returned: bool | msgspec.UnsetType = msgspec.UNSET


class Check(msgspec.Struct, frozen=True):
    """A question that an independent computation of the gradients answered about a run."""

    oracle: str  # "copies of saved tensors", "finite differences" or "finite differences of each operation"
    question: str  # the question, such as whether the gradients are correct
    # "yes" or "no"; "not known" if the method could not decide, "not asked" if it was not run
    answer: Literal["yes", "no", "not known", "not asked"]
    detail: str = ""  # what the method covered, or why it could not decide; "" if there is nothing to add


class FaultyTensor(msgspec.Struct, frozen=True):
    """A tensor that a graph fault concerns, with the lines that made it, lost its history or gradient, and read it."""

    name: str  # its name in the program
    made: Place | None = None
    lost: Place | None = None
    read: Place | None = None
    # whether an optimizer holds it and it had a gradient at none of its steps, or whether no optimizer holds it
    # although it gets a gradient
    is_untrained: bool = False


class GraphFault(msgspec.Struct, frozen=True):
    """A line that modifies no saved tensor but prevents a gradient from reaching its intended tensor."""

    kind: str  # name of the fault, such as "graph cut"
    place: Place
    sentence: str  # effect of the line, without its number
    change: str  # suggested replacement, in words
    # the tensors that have no gradient because of it, or whose gradient is not used
    tensors: tuple[FaultyTensor, ...] = ()
    diff: str = ""  # the change as a unified diff; "" if it is not only text
    # whether the changed program was run, is correct, and does not have the fault; otherwise `diff` is only a
    # suggestion
    was_run: bool = False
    code: str = ""  # the change as a unified diff of the code, if the file is a notebook


class NamedLine(msgspec.Struct, frozen=True):
    """A line that a check names in its message, although it modifies no saved tensor."""

    place: Place
    sentence: str  # effect of the line, in English and without its number
    # mark in the picture: "lost" if the line takes values out of the graph, "unseen" if autograd does not record its
    # modification, else "named"
    mark: Literal["lost", "unseen", "named"] = "named"


Effect = Literal["same losses and gradients", "changes what is computed"]


class Fix(msgspec.Struct, frozen=True):
    """A change of the source that gives correct gradients, confirmed by running it and by two independent computations."""

    kind: str  # description of the change
    line: int  # first changed line, with the lines `before` and `after`
    before: str
    after: str
    proven: bool  # whether `effect` is "same losses and gradients"
    # "same losses and gradients" if every backward starts from the loss that the program was meant to compute and
    # produces the matching gradients, and every leaf ends with its intended value; else "changes what is computed"
    effect: Effect = "same losses and gradients"
    changes: str = ""  # the difference in the computation, as a sentence; "" if there is no difference
    diff: str = ""  # unified diff of the changed files, for `patch`
    # the changed file, if it is an imported file of the project; None for the program's own file
    file: str | None = None
    more: tuple[Fix, ...] = ()  # required changes of other files


def place_of_fix(fix: Fix) -> str:
    """Return the first changed line of a fix, such as "line 12" or "line 12 of layers.py"."""
    if not fix.file:
        return Message("place.line|line {line}", line=fix.line)
    return Message("place.of_file|line {line} of {file}", line=fix.line, file=fix.file)


def kind_of_fix(fix: Fix) -> str:
    """Return the kind of change as a message; of two changes, both are named."""
    return join_messages(map(Message, fix.kind.split(", then ")), "join.then|{first}, then {second}")


def note_on_change(fix: Fix) -> str:
    """Return a note on the difference that a fix makes to the computation."""
    text = "fix.changes|The fix in {place} ({kind}) changes what is computed: {changes}"
    return Message(text, place=place_of_fix(fix), kind=kind_of_fix(fix), changes=fix.changes)


class Excerpt(msgspec.Struct, frozen=True):
    """The recorded part of a long run."""

    calls: int  # number of backward calls of the run
    checked: int  # number of backward calls, from the first, whose gradients were compared with the correct ones
    # 1-based numbers of the recorded backward calls; the recording starts after the previous backward call
    first: int
    last: int
    ended: bool = True  # whether the program reached its end before the time limit


class Verdict(msgspec.Struct, frozen=True):
    """The outcome of a run, its cause, and fixes. The fields are those of `explain --json`."""

    outcome: Outcome
    error: Problem | None = None
    harms: tuple[Harm, ...] = ()
    gradients: dict[str, Gradient] = {}
    notes: tuple[str, ...] = ()
    fixes: tuple[Fix, ...] = ()
    checks: tuple[Check, ...] = ()
    graph_faults: tuple[GraphFault, ...] = ()
    runs: int = 0  # number of executions of the program and of its changed versions; 0 in recordings of release 0.1.0
    excerpt: Excerpt | None = None  # the recorded part of a long run; None if the whole run was recorded
    refusal: str = ""  # short reason why a check rejected this program; "" if no check did
    named: tuple[NamedLine, ...] = ()  # lines that this check names
    # id and values of each English text above and in `Recording.lost`, by which it is translated; filled when the
    # recording is stored
    messages: tuple[StoredMessage, ...] = ()

    @property
    def error_message(self) -> str:
        """The message of the error, or "" without an error."""
        return self.error.message if self.error else ""
