"""Writes that changed what a history describes, and left no trace in it."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.tape.recording.schema import Recording, Step, Write
from autograder.tape.recording.verdict_types import Place


def unrecorded_writes(recording: Recording) -> Iterator[Write]:
    """Yields each write that changed a tensor with a `grad_fn` and gave it no new one, or that gave one to an alias alone.

    Through `.data`, NumPy or `.detach()`, or under no_grad: the history still tells where the old values came from. Whether that
    makes a gradient wrong depends on what reads the values later.
    """
    storage = {tensor.id: tensor.storage for tensor in recording.tensors}
    described: set[int] = set()
    for step in recording.steps:
        # A view that is read in the same line is new and has a node of its own; a recorded write gives the others one.
        written = [state for state in step.states if state.tensor not in step.tensors and state.node is not None]
        recorded = {storage[state.tensor] for state in written if state.node in step.nodes}
        left = {storage[state.tensor] for state in written if state.node not in step.nodes}
        changed = (write for write in step.writes if write.bytes_changed)
        unseen = (described - (recorded - left)) | _told_to_an_alias(recording, step, storage)
        if unseen:
            unseen -= _told_of_function(recording, step, storage)
        yield from (write for write in changed if write.storage in unseen)
        described |= {storage[state.tensor] for state in step.states if state.node is not None}


def last_unrecorded(recording: Recording) -> Place | None:
    """Return the line of the last such write, None if there is no such write."""
    return next((write.place for write in reversed(list(unrecorded_writes(recording)))), None)


def _told_to_an_alias(recording: Recording, step: Step, storage: dict[int, int]) -> set[int]:
    """Return the memory in which a new alias, such as `.data`, got the written value's history, and older names did not."""
    made = {
        node.tensor for node in recording.nodes if node.id in step.nodes and any(one is not None for one in node.inputs)
    }
    through = {write.tensor for write in step.writes if write.bytes_changed} & made & set(step.tensors)
    bases = {tensor.id: tensor.base for tensor in recording.tensors if tensor.id in through}
    aliases = {storage[tensor] for tensor, base in bases.items() if base is None}
    if not aliases:
        return set()
    seen = {storage[state.tensor] for state in step.states if state.tensor not in through and state.node in step.nodes}
    known = {storage[state.tensor] for state in step.states if state.tensor not in step.tensors}
    return aliases & (known - seen)


def _told_of_function(recording: Recording, step: Step, storage: dict[int, int]) -> set[int]:
    """Returns the memory of what a custom Function gives a node when its forward ends: that of an input that it marked dirty."""
    *_, owner, method = ("", *step.function.split("."))
    later = recording.steps[step.index + 1 :] if method == "forward" else ()
    ended = next((one for one in later if one.depth < step.depth), None)
    made = (node for node in recording.nodes if ended and node.id in ended.nodes)
    return {storage[node.tensor] for node in made if node.name == f"{owner}Backward" and node.tensor is not None}
