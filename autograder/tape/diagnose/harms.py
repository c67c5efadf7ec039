"""Kinds of harm: ways in which an in-place modification makes backward fail or give a wrong gradient, in the order of the search.

Modifications of a saved tensor are found by its version counter, its bytes, or the error message; others are those of
gradients and of values that a later part of backward reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from msgspec import structs

from autograder.locale.messages import Message
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.internals.entry_points import ZEROING
from autograder.tape.internals.tensor_fields import VERSIONS
from autograder.tape.observe.nodes import GraphNode, TrackedSave
from autograder.tape.observe.state import RunState
from autograder.tape.observe.tensors import TrackedTensor, WriteEvent
from autograder.tape.recording.verdict_types import Harm, Outcome, Place, note_on_line


@dataclass(frozen=True)
class HarmKind:
    """A way in which an in-place modification breaks a gradient, with the function that finds it."""

    name: str  # its name in `explain --json`
    sentence: str  # description for readers who know PyTorch
    find: Callable[[Evidence], Iterable[Harm]]  # yields the harms of this kind in the evidence of a program
    outcomes: tuple[Outcome, ...] = ("silently-wrong",)  # the outcomes that it can explain; it is skipped for others


def harm_kind(
    name: str, sentence: str, outcomes: tuple[Outcome, ...] = ("silently-wrong",)
) -> Callable[[Callable[[Evidence], Iterable[Harm]]], HarmKind]:
    """Return a decorator that makes a kind of harm of the function that finds it."""
    return lambda find: HarmKind(name, sentence, find, outcomes)


def writes_into(state: RunState, save: TrackedSave) -> list[WriteEvent]:
    """Return the modifications that increased a saved tensor's counter or changed its bytes, from its save to its use."""
    written = []
    for write in state.writes[save.writes_before : save.until]:
        counted = is_counted(write, save)
        touched = write.changed and write.memory is save.memory and save.overlaps(write.start, write.stop)
        if counted or (save in write.harmed if write.swapped else touched and save.changed):
            written.append(write)
    return written


def is_counted(write: WriteEvent, save: TrackedSave) -> bool:
    """Return whether a modification increased the version counter that backward compares for a saved tensor."""
    return save.checked and save.counter in write.counters


def harm_to(state: RunState, save: TrackedSave, writes: list[WriteEvent], *, changed: bool) -> Harm:
    """Return the Harm of modifications to a saved tensor. `changed` is True if its bytes differ from the saved ones."""
    name, others = name_at_lines(state, save, writes), [write for write in writes if not is_of(write, save)]
    return Harm(
        name, places(writes), alias(others, name), save.node.place, save.node.name, save.version, save.version_now,
        changed, save.record_id,
    )  # fmt: skip


def name_at_lines(state: RunState, save: TrackedSave, writes: list[WriteEvent]) -> str:
    """Return the name of a saved tensor, or else of its base, or else its attribute in the node.

    If an outer function named a result later, the name is that of the lines that saved and modified it.
    """
    unnamed = f"{save.name} of {save.node.name}"
    if save.tensor is None:
        return unnamed
    owner = state.tensors.all[save.tensor]
    name = owner.name or (owner.base and owner.base.name) or state.name_of(owner) or unnamed
    if owner.leaf or _reads(save.node.place, name):
        return name
    given = (write.through for write in writes if is_of(write, save))
    return next((other for other in given if other and _reads(save.node.place, other)), name)


def _reads(place: Place, name: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}\b", place.text) is not None


def name_of_gradient(state: RunState, leaf: TrackedTensor) -> str:
    """Return the display name of a leaf's gradient, such as "w.grad"."""
    return f"{state.name_of(leaf) or 'leaf'}.grad"


def is_of(write: WriteEvent, save: TrackedSave) -> bool:
    """Return whether the modified tensor object is the saved one, whose other names are not aliases."""
    return write.tracked is not None and write.tracked.id == save.tensor


def alias(writes: list[WriteEvent], name: str) -> str | None:
    """Return the first other name that was modified, or None."""
    return next((write.through for write in writes if write.through and write.through != name), None)


def places(writes: list[WriteEvent]) -> tuple[Place, ...]:
    """Return the lines of the modifications without duplicates, in order."""
    return tuple(dict.fromkeys(write.place for write in writes))


def harms_to_consumed_saves(evidence: Evidence, *, stale: bool) -> Iterator[Harm]:
    """Yield the harm to each saved tensor that a backward used and that had changed since it was saved.

    If backward raised, only the last call counts, and the saved tensors of the node that raised come first. `stale`
    selects those whose version counter changed, or the others.
    """
    state = evidence.state
    saves = list(dict.fromkeys(state.consumed))
    if evidence.outcome == "raises-backward":
        raised, of_last = evidence.raised_nodes, (save for save in saves if save.call == state.calls - 1)
        saves = sorted(of_last, key=lambda save: save.node.id not in raised)
    for save in saves:
        if save.stale == stale and (stale or save.used) and (writes := writes_into(state, save)):
            # On the device `meta`, values cannot be read, so they may have changed.
            is_unreadable = save.memory.size == 0 and save.tensor is not None
            if stale and not any(is_counted(write, save) for write in writes):  # the counter increased during backward
                later = (write for write in state.writes[save.until :] if write.in_backward)
                writes = [write for write in later if is_counted(write, save)] + writes
            yield harm_to(state, save, writes, changed=save.changed or is_unreadable)


COUNTED_WRITE = HarmKind(
    "counted write",
    "A tensor that backward needs was modified in place; its version counter increased, so backward raises an error.",
    partial(harms_to_consumed_saves, stale=True),
    ("raises-backward", "silently-wrong"),
)


UNCOUNTED_WRITE = HarmKind(
    "uncounted write",
    "A tensor that backward needs was overwritten, and the version check cannot detect it: backward uses the new values.",
    partial(harms_to_consumed_saves, stale=False),
    ("raises-backward", "silently-wrong"),
)


@harm_kind(
    "unrecorded write",
    "A tensor with history was overwritten and autograd did not record it: the gradient belongs to other values.",
)
def unrecorded_write(evidence: Evidence) -> Iterator[Harm]:
    """Yield the unrecorded modifications whose values were used, if finite differences show that they change a gradient."""
    state, effect = evidence.state, evidence.runs.untracked_effect
    for suspect in effect.suspects if effect.wrong else ():
        write, tracked = suspect.write, suspect.tracked
        name, version = state.name_of(tracked) or "a tensor with history", tracked.counter.version
        yield Harm(name, (write.place,), alias([write], name), suspect.used_at, suspect.used_by, version, version, True)


def unrecorded_write_notes(evidence: Evidence) -> Iterator[str]:
    """Yield a sentence for each line with an unrecorded modification whose values were used, even if no gradient is wrong."""
    notes = {}
    effect = evidence.runs.untracked_effect
    for suspect in effect.suspects:
        write, name = suspect.write, evidence.state.name_of(suspect.tracked)
        name = name or Message("write.with_history|a tensor with history")
        message = Message(
            "write.unrecorded|it modifies {name}, and autograd does not record it ({operation}): the graph does not "
            "match the computation.",
            name=name, operation=write.operation,
        )  # fmt: skip
        through = alias([write], name)
        # The gradients are right for the new values, which the author may have meant for the alias only. If the alias
        # has no name, assume that the modification is intended.
        if through and through.isidentifier() and not effect.wrong:
            message = Message(
                "write.shared_memory|it writes through {alias} into {name}, which has the same memory: the loss was "
                "computed with the new values. To keep the values of {name}, make {alias} a copy: `.clone()`, or `.copy()` in NumPy.",
                alias=through, name=name,
            )  # fmt: skip
        notes[write.place] = note_on_line(write.place, evidence.file, message)
    yield from notes.values()


@harm_kind(
    "write found by its version",
    "Backward raised an error about a tensor that no node exposes; these writes moved its version between the two in the error.",
    outcomes=("raises-backward",),
)
def write_found_by_version(evidence: Evidence) -> Iterator[Harm]:
    """Yield the modifications that increased a counter from the version that backward expected to the actual one.

    No saved tensor shows them if they were made during backward, or if CopySlices saved the tensor: the node of a base
    whose view was modified does not expose its inner function to Python (PyTorch 2.13).
    """
    state, match = evidence.state, VERSIONS.search(evidence.error_message)
    if not match:
        return
    versions = int(match[1]), int(match[2])
    saves = [save for save in state.graph.saves if save.stale and (save.version_now, save.version) == versions]
    # A recomputed block has saved tensors that no engine call of the program reached.
    for save, writes in [(save, writes) for save in saves if (writes := writes_into(state, save))][-1:]:
        inside = (write for write in writes if write.memory is save.memory and save.overlaps(write.start, write.stop))
        yield harm_to(state, save, writes, changed=any(event.changed for event in inside))
    if not saves:
        yield from _by_counter(state, *versions)


def _by_counter(state: RunState, now: int, then: int) -> Iterator[Harm]:
    """Yield the harm through the counter that changed between two versions; of several, through the last modified.

    Others may have changed as much without harm, such as that of an initialized parameter.
    """
    moved: dict[int, list[WriteEvent]] = {}
    for counter in state.tensors.counters:
        writes = [write for write in state.writes if counter.id in write.counters and write.version is not None]
        if counter.version == now and any(then < (write.version or 0) <= now for write in writes):
            moved[counter.id] = writes
    for writes in sorted(moved.values(), key=lambda some: some[-1].index)[-1:]:
        after = [write for write in writes if then < (write.version or 0) <= now]
        saved = next((write.place for write in writes if write.version == then), after[0].place)
        tracked = after[0].tracked
        name = (tracked and state.name_of(tracked)) or "a view written in place"
        yield Harm(name, places(after), None, saved, "CopySlices", then, now, any(write.changed for write in after))


@harm_kind(
    "write during backward",
    "While backward ran, a hook or a custom backward wrote into a tensor that a later node still needed.",
)
def write_during_backward(evidence: Evidence) -> Iterator[Harm]:
    """Yield the modifications during backward of saved tensors that were used later."""
    for write in evidence.state.writes:
        for save in write.harmed if write.in_backward and write.changed else ():
            # A custom Function may modify its own saved tensors deliberately.
            if save.used and not save.node.is_custom:
                yield harm_to(evidence.state, save, [write], changed=True)


@harm_kind(
    "write before recomputation",
    "A checkpointed block is computed again during backward, with a tensor that was overwritten after its forward pass.",
)
def write_before_recomputation(evidence: Evidence) -> Iterator[Harm]:
    """Yield the modifications of tensors that the recomputation read and that are not arguments of the block.

    They happened between the forward pass of a block and the backward call that computes it again.
    """
    state, count = evidence.state, len(evidence.state.writes)
    read_at = {node: call.writes for call in state.flow.calls for node in call.graph.visited}
    blocks = [save for save in state.graph.saves if save.checkpointed]
    spans = {(save.writes_before, read_at.get(save.node.id, count)) for save in blocks}
    for number in sorted(set().union(*(range(*span) for span in spans))):
        write = state.writes[number]
        place = state.read_again.get(write.memory)
        if place is not None and write.changed and not write.in_backward and write.tracked is not None:
            name = state.name_of(write.tracked) or "a tensor of the block"
            yield Harm(name, (write.place,), alias([write], name), place, "checkpoint", None, write.version, True)


_EMPTIES = (*ZEROING, "zero_grad")


@harm_kind(
    "write into a kept gradient",
    "The program kept a leaf's .grad without a copy, and its memory was then emptied or added to.",
)
def kept_gradient(evidence: Evidence) -> Iterator[Harm]:
    """Yield the modifications of gradient buffers: those that zeroed one, or else those of a later backward that accumulated into one."""
    if evidence.wrong_call is not None:
        return  # the call computed a wrong gradient itself
    state = evidence.state
    writes = [write for write in state.writes if write.changed and write.memory in state.buffers]
    writes = [write for write in writes if write.operation in _EMPTIES] or writes
    for memory in dict.fromkeys(write.memory for write in writes):
        overwriting = [write for write in writes if write.memory is memory]
        leaf, filled = state.buffers[memory]
        name = name_of_gradient(state, leaf)
        yield Harm(name, places(overwriting), None, filled, "AccumulateGrad", None, overwriting[-1].version, True)


@harm_kind(
    "write into a passed gradient",
    "A hook or a custom backward modified its incoming gradient in place, and another node received the same tensor.",
)
def passed_gradient(evidence: Evidence) -> Iterator[Harm]:
    """Yield the modifications of gradients that a hook or a custom backward received."""
    state = evidence.state
    for write in state.writes:
        _, filled = state.buffers.get(write.memory, (None, None))
        is_accumulation = write.operation == "accumulate" or write.place == filled  # seen while a block is recomputed
        if write.in_backward and write.changed and not is_accumulation and write.tracked is not None:
            source_node = _source_node(state, write)
            node, place = (source_node.name, source_node.place) if source_node else ("the engine", write.place)
            name = state.name_of(write.tracked) or "a gradient"
            yield Harm(name, (write.place,), None, place, node, 0, write.version, True)


def _source_node(state: RunState, write: WriteEvent) -> GraphNode | None:
    """Return the node that passed the gradient on: the consumer of the custom node that ran, else the first node with two inputs."""
    if write.running and write.running.consumers:
        return write.running.consumers[0]
    visited = state.backward_calls[write.call].visited if write.call < len(state.backward_calls) else ()
    nodes = [state.graph.nodes[number] for number in visited]
    return next((node for node in nodes if len(node.inputs) > 1), nodes[0] if nodes else None)


@harm_kind(
    "shared gradient",
    "Two leaves were given the same memory as their .grad, and backward adds to it for both.",
)
def shared_gradient(evidence: Evidence) -> Iterator[Harm]:
    """Yield the assignments to `.grad` that gave two leaves the same memory."""
    state = evidence.state
    for place, leaf, other in state.shared_buffers:
        name, through = name_of_gradient(state, other), name_of_gradient(state, leaf)
        yield Harm(name, (place,), through, place, "AccumulateGrad", 0, 0, True)


# All kinds of a row are searched, and their harms are listed in this order; a row is searched only if the rows above
# found no harm. Kinds with less information, which could name a line that does no harm, are in lower rows.
HARM_KINDS: tuple[tuple[HarmKind, ...], ...] = (
    (COUNTED_WRITE, UNCOUNTED_WRITE, unrecorded_write),
    (write_found_by_version, write_during_backward),
    (passed_gradient, shared_gradient, write_before_recomputation),
    (kept_gradient,),
)


def find_harms(evidence: Evidence) -> tuple[Harm, ...]:
    """Return the modifications that explain the outcome, starting with the cause of an error, or () if no modification explains it."""
    for row in HARM_KINDS:
        harms: dict[Harm, None] = {}
        for kind in row:
            of_kind = kind.find(evidence) if evidence.outcome in kind.outcomes else ()
            harms |= dict.fromkeys(structs.replace(harm, kind=kind.name, explanation=kind.sentence) for harm in of_kind)
        if harms:
            return tuple(harms)
    return ()
