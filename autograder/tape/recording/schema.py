"""The `Recording`: the state of autograd during a program's run, as frozen plain data.

A recording contains no tensors, so it can be stored, compared, sent to another machine and drawn later without torch.
Each step contains only its changes, so the size of a recording is linear in the number of steps.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from autograder.errors import InputError
from autograder.locale.messages import Message
from autograder.locale.stored_messages import with_stored
from autograder.tape.recording.verdict_types import Outcome, Place, Verdict


def explain_json(recording: Recording, file: str) -> dict[str, Any]:
    """Return the object that `explain --json` prints, as dictionaries, lists, strings and numbers.

    JSON has neither infinity nor NaN; such elements of a gradient become null.
    """
    verdict = _of(recording.verdict)
    for harm in verdict["harms"]:
        del harm["edge"]
    for gradient in verdict["gradients"].values():
        del gradient["unlisted"]
        if gradient["ran"] is None:
            del gradient["ran"]
    return {"version": recording.version, "file": file} | json.loads(json.dumps(verdict), parse_constant=lambda _: None)


def unknown_json(file: str, note: str) -> dict[str, Any]:
    """Return the object that `explain --json` prints for a program without a known outcome. `note` gives the reason."""
    nothing = _of(Verdict("correct", notes=(note,)))
    return {"version": VERSION, "file": file} | nothing | {"outcome": None}


def _of(verdict: Verdict) -> dict[str, Any]:
    fields, messages = with_stored(verdict, verdict.messages)
    fields["messages"] = msgspec.to_builtins(messages)
    del fields["refusal"], fields["named"]  # only checks set these fields
    return fields


def unrecorded_writes(recording: Recording) -> Iterator[Write]:
    """Yield the in-place modifications that autograd did not record in the graph of the modified tensor.

    The tensor has a `grad_fn` and kept it, or only an alias of it received a new `grad_fn`. The modification was made
    through `.data`, NumPy or `.detach()`, or under `no_grad`, so the graph still describes the old values. Whether a
    gradient is wrong depends on later operations that read the tensor.
    """
    storage = {tensor.id: tensor.storage for tensor in recording.tensors}
    described: set[int] = set()
    for step in recording.steps:
        # A view that the same line creates is new and has its own node; a recorded modification gives the other tensors
        # a new node.
        written = [state for state in step.states if state.tensor not in step.tensors and state.node is not None]
        recorded = {storage[state.tensor] for state in written if state.node in step.nodes}
        left = {storage[state.tensor] for state in written if state.node not in step.nodes}
        changed = (write for write in step.writes if write.bytes_changed)
        unseen = (described - (recorded - left)) | _described_by_an_alias(recording, step, storage)
        if unseen:
            unseen -= _described_in_the_function(recording, step, storage)
        yield from (write for write in changed if write.storage in unseen)
        described |= {storage[state.tensor] for state in step.states if state.node is not None}


def last_unrecorded(recording: Recording) -> Place | None:
    """Return the line of the last unrecorded modification, or None."""
    return next((write.place for write in reversed(list(unrecorded_writes(recording)))), None)


def _described_by_an_alias(recording: Recording, step: Step, storage: dict[int, int]) -> set[int]:
    """Return the storages in which only a new alias, such as `.data`, received a node for the modification."""
    made = {node.tensor for node in recording.nodes if node.id in step.nodes and {*node.inputs} - {None}}
    through = {write.tensor for write in step.writes if write.bytes_changed} & made & set(step.tensors)
    bases = {tensor.id: tensor.base for tensor in recording.tensors if tensor.id in through}
    aliases = {storage[tensor] for tensor, base in bases.items() if base is None}
    if not aliases:
        return set()
    seen = {storage[state.tensor] for state in step.states if state.tensor not in through and state.node in step.nodes}
    known = {storage[state.tensor] for state in step.states if state.tensor not in step.tensors}
    return aliases & (known - seen)


def _described_in_the_function(recording: Recording, step: Step, storage: dict[int, int]) -> set[int]:
    """Return the storages of inputs that a custom Function marked as dirty: they receive a new node when its forward returns."""
    *_, owner, method = ("", *step.function.split("."))
    later = recording.steps[step.index + 1 :] if method == "forward" else ()
    ended = next((after for after in later if after.depth < step.depth), None)
    made = (node for node in recording.nodes if ended and node.id in ended.nodes)
    return {storage[node.tensor] for node in made if node.name == f"{owner}Backward" and node.tensor is not None}


VERSION = 1


class SourceFile(msgspec.Struct, frozen=True):
    """The name and the full source of a file or cell of the user that ran."""

    file: str
    source: str


class Storage(msgspec.Struct, frozen=True):
    """A block of memory, which views and aliases (`.data`, NumPy, DLPack) may share."""

    id: int
    bytes: int


class Tensor(msgspec.Struct, frozen=True):
    """The constant properties of a tensor object."""

    id: int
    shape: tuple[int, ...]
    dtype: str
    storage: int
    # range of bytes in the storage that the tensor covers; stop is exclusive
    start: int
    stop: int
    # id of the version counter; views and `.detach()` share the counter of their tensor, `.data` has a new one
    counter: int
    # "parameter" or "leaf" if it requires grad, "input" if it does not, "result" if an operation created it
    kind: Literal["parameter", "leaf", "input", "result"]
    base: int | None = None  # id of the tensor that this tensor is a view of, or None
    # how it reaches another tensor's memory without its counter ("data", "numpy", "dlpack"), or None
    alias_of: str | None = None
    # the path of a parameter that received a gradient, such as "trainer.net.fc.weight"
    path: str | msgspec.UnsetType = msgspec.UNSET


class TensorState(msgspec.Struct, frozen=True):
    """The state of a tensor after a step that created or changed it."""

    tensor: int
    # version counter, the number of in-place modifications so far; None for an inference tensor, which has no counter
    version: int | None
    requires_grad: bool
    is_leaf: bool
    node: int | None  # id of the node that created it (`grad_fn`), or None for a leaf
    values: str  # short text of the values, such as "[[1, 2], [3, 4]]" or "[0.1, 0.2, … 998 more]"


class Node(msgspec.Struct, frozen=True):
    """A backward function, with PyTorch's name (such as `MulBackward0`)."""

    id: int
    name: str
    # ids of the next nodes of backward, in the order of `next_functions`; None for an input without a gradient
    inputs: tuple[int | None, ...]
    # id of the leaf that an AccumulateGrad node fills, else of the tensor that the operation produced, if known
    tensor: int | None = None
    place: Place | None = None  # the user's line that created the node
    # enclosing module or function calls, outermost first, such as ("Net", "layers.0"); the picture folds by scope
    scope: tuple[str, ...] = ()


def nodes_below(starts: Iterable[int], nodes: Mapping[int, Node]) -> list[Node]:
    """Return these nodes and those that backward would reach from them; unknown ids are ignored."""
    reached: dict[int, Node] = {}
    waiting = list(starts)
    while waiting:
        node = nodes.get(waiting.pop())  # a recording from a student's process may contain unknown ids
        if node is not None and node.id not in reached:
            reached[node.id] = node
            waiting += [below for below in node.inputs if below is not None]
    return list(reached.values())


class SavedEdge(msgspec.Struct, frozen=True):
    """A tensor that a node saved for backward."""

    id: int
    node: int
    name: str  # PyTorch's attribute name without its prefix, such as "self", "other", "result"
    storage: int
    start: int
    stop: int
    # version counter when the tensor was saved; None for an inference tensor, which has no counter
    saved_version: int | None
    # version counter at the end of the forward program, just before the first backward used the tensor
    version_now: int | None
    bytes_changed: bool  # whether the values at that time differ from the saved values
    # id of the saved tensor, or of a tensor that covers the same bytes; None if no variable referred to either
    tensor: int | None = None
    place: Place | None = None

    @property
    def is_stale(self) -> bool:
        """Whether the version counter changed after the tensor was saved, so that `backward()` raises an error."""
        return self.version_now != self.saved_version


class Write(msgspec.Struct, frozen=True):
    """An in-place modification of memory."""

    place: Place
    operation: str  # the operation that wrote, such as "add_", "__setitem__", "numpy", "data ="
    storage: int
    start: int
    stop: int
    # ids of the version counters that the operation increased; empty if autograd cannot detect the modification
    counters: tuple[int, ...]
    bytes_changed: bool
    # id of the modified tensor; None if the modification went through an alias that is not a variable
    tensor: int | None = None
    through: str | None = None  # display name of that tensor or alias, such as a variable or a path
    harmed: tuple[int, ...] = ()  # ids of the saved edges whose version or bytes it changed


class NameChange(msgspec.Struct, frozen=True):
    """A variable that a step bound to a tensor. `tensor` is None if the variable no longer refers to a tensor."""

    name: str
    tensor: int | None


class Forecast(msgspec.Struct, frozen=True):
    """The outcome of a backward call at this point from the losses found so far, and the saved edges that determine it."""

    outcome: Outcome
    because: tuple[int, ...] = ()


class Step(msgspec.Struct, frozen=True):
    """An executed statement of the user's code, and its effects. `tensors`, `nodes` and `saved` are ids of the new objects."""

    index: int
    place: Place
    function: str = "<module>"  # the enclosing function; "<module>" for top-level code
    depth: int = 0  # depth of the call; 0 for top-level code
    names: tuple[NameChange, ...] = ()
    tensors: tuple[int, ...] = ()
    states: tuple[TensorState, ...] = ()
    nodes: tuple[int, ...] = ()
    saved: tuple[int, ...] = ()
    writes: tuple[Write, ...] = ()
    freed: tuple[int, ...] = ()  # ids of the saved edges that backward released in this step
    forecast: Forecast | None = None  # None if no known tensor requires grad


class BackwardStep(msgspec.Struct, frozen=True):
    """A node that backward visited, in order of execution."""

    node: int
    status: Literal["passed", "raised"]
    got: str = ""  # short text of the gradients that the node returned in this run
    true: str = ""  # short text of the correct gradients; equal to `got` if the node's gradients are correct
    message: str | None = None  # message of the error, if the node raised an error
    step: int | None = None  # index of the step whose statement called backward; None if it is not known

    @property
    def is_wrong(self) -> bool:
        """Whether the node's gradients are known to differ from the correct ones."""
        return bool(self.true) and self.got != self.true


class LostHistory(msgspec.Struct, frozen=True):
    """A line that takes values out of the autograd graph, such as a call of `.detach()` or `.item()`."""

    place: Place
    sentence: str  # what the line does with the values, in English
    # ids of the tensors that the line reads, and of the nodes that produced them
    tensors: tuple[int, ...]
    nodes: tuple[int, ...]
    is_used: bool  # whether a later operation combined such a value with the graph again


class Recording(msgspec.Struct, frozen=True):
    """The full record of a run: input of pictures, reports and lessons."""

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
    # number of statements that ran and are not a step, or a part of it; unset if all of them are steps
    unlisted: int | msgspec.UnsetType = msgspec.UNSET


class RecordingError(InputError):
    """The text is not a Recording that this release can read. The message gives the reason and the next step."""


def to_json(recording: Recording) -> str:
    """Return the recording as a JSON string of one line."""
    return msgspec.json.encode(storable(recording)).decode()


def storable(recording: Recording) -> Recording:
    """Return the recording with each message as an English text, and with their ids and values in its verdict."""
    (verdict, lost), messages = with_stored((recording.verdict, recording.lost), recording.verdict.messages)
    stored = msgspec.structs.replace(msgspec.convert(verdict, Verdict), messages=messages)
    return msgspec.structs.replace(recording, verdict=stored, lost=msgspec.convert(lost, tuple[LostHistory, ...]))


def from_json(text: str | bytes) -> Recording:
    """Return the recording that `to_json` encoded.

    Raises:
        RecordingError: if the text is truncated, is not JSON, lacks a field, or was written by a newer release.
    """
    reason: str = Message("recording.no_version|it has no version number")
    try:
        version = msgspec.json.decode(text, type=dict).get("version")
    except msgspec.DecodeError as error:
        version, reason = None, str(error)
    if not isinstance(version, int):
        raise RecordingError.of(
            "recording.not_one|This is not a recording: {reason}. Record the program again.", reason=reason
        )
    if version > VERSION:
        raise RecordingError.of(
            "recording.newer|This recording has version {version}; this release reads versions up to {VERSION}. Update autograder.",
            version=repr(version), VERSION=VERSION,
        )  # fmt: skip
    try:
        return msgspec.json.decode(text, type=Recording)
    except msgspec.ValidationError as error:
        raise RecordingError.of(
            "recording.damaged|This recording is damaged: {reason}. Record the program again.", reason=str(error)
        ) from None


LARGEST_RECORDING = 2 * 2**20  # bytes of one recording, and of its picture; those of the lessons have about 10,000
MOST_PARTS = 5_000  # tensors, nodes, saved tensors, steps and visits


def checked_recording(data: bytes) -> Recording | None:
    """Return a recording that was sent as msgpack; None if it is damaged, or too large to be drawn."""
    try:
        recording = msgspec.msgpack.decode(data, type=Recording) if len(data) <= LARGEST_RECORDING else None
    except (msgspec.MsgspecError, RecursionError):
        return None
    return recording if recording and can_be_drawn(recording) else None


def can_be_drawn(recording: Recording) -> bool:
    """Return whether a recording has few enough parts."""
    names = ("tensors", "nodes", "saved", "steps", "backward", "storages", "lost")
    return sum(len(getattr(recording, name)) for name in names) <= MOST_PARTS
