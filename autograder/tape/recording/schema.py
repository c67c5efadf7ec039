"""The Recording: what autograd held while a program ran, as frozen plain data.

It holds no tensors. It can be kept, compared, sent to another machine and drawn a year later without torch.
Every step holds only what changed in it, so a recording grows linearly with the program's run.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from autograder.errors import InputError
from autograder.locale.translations import in_english
from autograder.tape.recording.verdict_types import Outcome, Place, Verdict

VERSION = 1


class SourceFile(msgspec.Struct, frozen=True):
    """One file (or cell) of the user's that ran: its name and its whole text."""

    file: str
    source: str


class Storage(msgspec.Struct, frozen=True):
    """One stretch of memory, however many objects reach it (views, `.data`, NumPy and DLPack aliases)."""

    id: int
    bytes: int


class Tensor(msgspec.Struct, frozen=True):
    """What never changes about one tensor object.

    Attributes:
        start, stop: the bytes of its storage that it covers, counted from the storage's first byte; stop is exclusive.
        counter: the version-counter family; views and `.detach()` share one, `.data` starts its own.
        base: the tensor it is a view of, or None.
        kind: what a reader calls it; "parameter" and "leaf" require grad, "input" does not, "result" came from an operation.
        alias_of: how it reaches another tensor's memory without its counter ("data", "numpy", "dlpack"), or None.
    """

    id: int
    shape: tuple[int, ...]
    dtype: str
    storage: int
    start: int
    stop: int
    counter: int
    kind: Literal["parameter", "leaf", "input", "result"]
    base: int | None = None
    alias_of: str | None = None


class TensorState(msgspec.Struct, frozen=True):
    """What a step changed about a tensor (or found, where the tensor is new).

    Attributes:
        version: its counter, the number of in-place writes so far; None for an inference tensor, which has no counter.
        node: the node that made it (`grad_fn`), or None for a leaf.
        values: a short text of its values, such as "[[1, 2], [3, 4]]" or "[0.1, 0.2, … 998 more]".
    """

    tensor: int
    version: int | None
    requires_grad: bool
    is_leaf: bool
    node: int | None
    values: str


class Node(msgspec.Struct, frozen=True):
    """A backward function, under PyTorch's own name (`MulBackward0`).

    Attributes:
        inputs: the nodes that backward visits next, in the order of `next_functions`; None where no gradient flows.
        tensor: the leaf that an AccumulateGrad node fills, else the tensor it produced, where one is known.
        place: the user's line that created it.
        scope: the module or function calls it was made in, outermost first, such as ("Net", "layers.0"); for folding.
    """

    id: int
    name: str
    inputs: tuple[int | None, ...]
    tensor: int | None = None
    place: Place | None = None
    scope: tuple[str, ...] = ()


class SavedEdge(msgspec.Struct, frozen=True):
    """One tensor that a node has saved for backward.

    Attributes:
        name: PyTorch's own name without its prefix, such as "self", "other", "result".
        tensor: the tensor it is, or the one it shares all its bytes with; None where no variable named it.
        saved_version: the counter when it was saved (None: not counted, as for an inference tensor).
        version_now: the counter at the end of the forward program, just before the first backward used it.
        bytes_changed: whether its values differ then from those that were saved.
    """

    id: int
    node: int
    name: str
    storage: int
    start: int
    stop: int
    saved_version: int | None
    version_now: int | None
    bytes_changed: bool
    tensor: int | None = None
    place: Place | None = None

    @property
    def is_stale(self) -> bool:
        """Whether the counter moved since it was saved: backward refuses it."""
        return self.version_now != self.saved_version


class Write(msgspec.Struct, frozen=True):
    """A write into existing memory.

    Attributes:
        tensor: the object it went through (None: an alias no variable names); `through` is that object's name or how it was reached.
        operation: what wrote, such as "add_", "__setitem__", "numpy", "data =".
        counters: the counter families that the write moved; empty for a write that autograd cannot see.
        harmed: the saved edges whose version or bytes it changed.
    """

    place: Place
    operation: str
    storage: int
    start: int
    stop: int
    counters: tuple[int, ...]
    bytes_changed: bool
    tensor: int | None = None
    through: str | None = None
    harmed: tuple[int, ...] = ()


class NameChange(msgspec.Struct, frozen=True):
    """A variable that a step bound to a tensor; None: the name no longer holds a tensor."""

    name: str
    tensor: int | None


class Forecast(msgspec.Struct, frozen=True):
    """What backward would do if it were called now, from the losses in sight, and the saved edges that decide it."""

    outcome: Outcome
    because: tuple[int, ...] = ()


class Step(msgspec.Struct, frozen=True):
    """One executed statement of the user's own code, and what it changed.

    Attributes:
        function: the function it ran in ("<module>" at the top), `depth` how many calls deep (0 at the top).
        tensors, nodes, saved: ids that exist from this step on.
        freed: saved edges that backward released in this step.
        forecast: None where nothing in sight requires grad.
    """

    index: int
    place: Place
    function: str = "<module>"
    depth: int = 0
    names: tuple[NameChange, ...] = ()
    tensors: tuple[int, ...] = ()
    states: tuple[TensorState, ...] = ()
    nodes: tuple[int, ...] = ()
    saved: tuple[int, ...] = ()
    writes: tuple[Write, ...] = ()
    freed: tuple[int, ...] = ()
    forecast: Forecast | None = None


class BackwardStep(msgspec.Struct, frozen=True):
    """One node that backward visited, in order: what gradient came in, what it passed on, or the refusal.

    Attributes:
        got, true: a short text of the gradient that left the node on this run, and of the right one; equal where nothing is wrong.
        step: the index of the step whose statement called backward; None where it is not known.
    """

    node: int
    status: Literal["passed", "raised"]
    got: str = ""
    true: str = ""
    message: str | None = None
    step: int | None = None


class LostHistory(msgspec.Struct, frozen=True):
    """A line at which values leave the graph although they have a history, such as one with `.detach()` or `.item()`.

    Attributes:
        sentence: what the line does with them, in English.
        tensors, nodes: the values that it reads, and the nodes that made these.
        is_used: whether such a value met the graph again.
    """

    place: Place
    sentence: str
    tensors: tuple[int, ...]
    nodes: tuple[int, ...]
    is_used: bool


class Recording(msgspec.Struct, frozen=True):
    """Everything a picture, a report or a lesson needs to know of one run."""

    version: int
    torch: str
    programs: tuple[SourceFile, ...]
    steps: tuple[Step, ...]
    tensors: tuple[Tensor, ...]
    storages: tuple[Storage, ...]
    nodes: tuple[Node, ...]
    saved: tuple[SavedEdge, ...]
    backward: tuple[BackwardStep, ...]
    verdict: Verdict
    lost: tuple[LostHistory, ...] = ()


class RecordingError(InputError):
    """The text is no Recording that this release can read; the message says what was seen and what to do."""


def to_json(recording: Recording) -> str:
    """Returns the recording as one line of JSON."""
    return msgspec.json.encode(recording).decode()


def from_json(text: str | bytes) -> Recording:
    """Returns the recording that `to_json` wrote.

    Raises:
        RecordingError: the text is cut off, is not JSON, lacks a field, or was written by a newer release.
    """
    try:
        version = msgspec.json.decode(text, type=dict).get("version")
    except msgspec.DecodeError as error:
        raise RecordingError(
            in_english("This is no recording: {reason}. Record the program again.", reason=str(error))
        ) from None
    if not isinstance(version, int):
        reason = in_english("it has no version number")
        raise RecordingError(in_english("This is no recording: {reason}. Record the program again.", reason=reason))
    if version > VERSION:
        raise RecordingError(
            in_english(
                "This recording has version {version}; this release reads versions up to {VERSION}. Update autograder.",
                version=repr(version),
                VERSION=VERSION,
            )
        )
    try:
        return msgspec.json.decode(text, type=Recording)
    except msgspec.ValidationError as error:
        raise RecordingError(
            in_english("This recording is damaged: {reason}. Record the program again.", reason=str(error))
        ) from None
