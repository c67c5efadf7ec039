"""Writes that changed what a history describes, and left no trace in it."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.tape.recording.schema import Recording, Write


def unrecorded_writes(recording: Recording) -> Iterator[Write]:
    """Yields each write that changed a tensor with a `grad_fn` and gave it no new one.

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
        yield from (write for write in changed if write.storage in described - (recorded - left))
        described |= {storage[state.tensor] for state in step.states if state.node is not None}
