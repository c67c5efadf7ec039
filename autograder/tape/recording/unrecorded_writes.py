"""Find in-place modifications of tensors that have a `grad_fn` if autograd did not record them."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.tape.recording.schema import Recording, Step, Write
from autograder.tape.recording.verdict_types import Place


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
        unseen = (described - (recorded - left)) | _told_to_an_alias(recording, step, storage)
        if unseen:
            unseen -= _told_of_function(recording, step, storage)
        yield from (write for write in changed if write.storage in unseen)
        described |= {storage[state.tensor] for state in step.states if state.node is not None}


def last_unrecorded(recording: Recording) -> Place | None:
    """Return the line of the last unrecorded modification, or None."""
    return next((write.place for write in reversed(list(unrecorded_writes(recording)))), None)


def _told_to_an_alias(recording: Recording, step: Step, storage: dict[int, int]) -> set[int]:
    """Return the storages in which only a new alias, such as `.data`, received a node for the modification."""
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
    """Return the storages of inputs that a custom Function marked as dirty: they receive a new node when its forward returns."""
    *_, owner, method = ("", *step.function.split("."))
    later = recording.steps[step.index + 1 :] if method == "forward" else ()
    ended = next((one for one in later if one.depth < step.depth), None)
    made = (node for node in recording.nodes if ended and node.id in ended.nodes)
    return {storage[node.tensor] for node in made if node.name == f"{owner}Backward" and node.tensor is not None}
