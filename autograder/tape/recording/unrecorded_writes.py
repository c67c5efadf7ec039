"""Writes that changed what a history describes, and left no trace in it."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.tape.recording.schema import Recording, Write


def unrecorded_writes(recording: Recording) -> Iterator[Write]:
    """Yields each write into the memory of a tensor with a `grad_fn` for which no tensor of that memory got a new one.

    Through `.data`, NumPy or `.detach()`, or under no_grad: the history still tells where the old values came from. Whether that
    makes a gradient wrong depends on what reads the values later.
    """
    storage = {tensor.id: tensor.storage for tensor in recording.tensors}
    described: set[int] = set()
    for step in recording.steps:
        # A view that is read in the same line is new and has a node of its own; a recorded write gives the others one.
        rebased = (state for state in step.states if state.tensor not in step.tensors)
        recorded = {storage[state.tensor] for state in rebased if state.node in step.nodes}
        yield from (write for write in step.writes if write.storage in described - recorded)
        described |= {storage[state.tensor] for state in step.states if state.node is not None}
