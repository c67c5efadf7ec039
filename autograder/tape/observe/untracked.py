"""Find modifications of tensors with a graph that autograd did not record, and whether the new values were used."""

from __future__ import annotations

from dataclasses import dataclass
from types import FrameType

import torch

from autograder.tape.internals.tensor_fields import base_of, is_view
from autograder.tape.observe.nodes import Graph
from autograder.tape.observe.statements import ActiveCall
from autograder.tape.observe.tensors import TrackedTensor, WriteEvent
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.graph_walk import node_of


@dataclass(eq=False)
class UnrecordedWrite:
    """An unrecorded modification of a tensor whose `grad_fn` was `node`. `inside_custom` means that a custom forward used its values."""

    write: WriteEvent
    tracked: TrackedTensor
    node: object
    inside_custom: bool = False
    used_at: Place = Place("", 0, "")
    used_by: str = "a custom Function"


class Untracked:
    """Unrecorded modifications of tensors with a graph, which then have values that the graph does not describe."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.pending: list[UnrecordedWrite] = []
        self.used_writes: list[UnrecordedWrite] = []

    def note(self, write: WriteEvent, swapped: TrackedTensor | None, neighbours: list[TrackedTensor]) -> None:
        """Add a modification that changed values."""
        through = write.tracked.ref() if write.tracked else None
        if through is not None and swapped is None and torch.is_grad_enabled() and through.requires_grad:
            return
        for tracked in [write.tracked] if swapped is not None and write.tracked else neighbours:
            tensor = tracked.ref()
            is_written = tracked.start < write.stop and write.start < tracked.stop
            if tensor is None or node_of(tensor) is None or not is_written:
                continue
            base = base_of(tensor)
            if (base is None or not base.is_leaf) or swapped is not None:
                self.pending.append(UnrecordedWrite(write, tracked, node_of(tensor)))

    def used(
        self, inputs: list[torch.Tensor], results: list[torch.Tensor], top: ActiveCall | None, place: Place, step: int
    ) -> None:
        """Process an operation with recorded results, or in a custom Function, which autograd records as a single node."""
        records = torch.is_grad_enabled()
        recorded = next((result for result in results if records and result.requires_grad), None)
        if recorded is None and not (top and is_custom_forward(top.frame)):
            return
        for suspect in list(self.pending):
            if recorded is None and top and suspect.write.active_call == top.number:
                continue  # a custom forward may modify tensors, as long as no outside operation uses the new values
            tensor = suspect.tracked.ref()
            if tensor is None or not _still_holds(suspect, tensor):
                self.pending.remove(suspect)
            elif any(value is tensor for value in inputs):
                self.pending.remove(suspect)
                suspect.inside_custom = recorded is None
                self.used_writes.append(suspect)
                suspect.used_at = place
                node = self._graph.of.get(node_of(recorded)) if recorded is not None else None
                if node is not None:
                    self._graph.mark_above(node, "untracked", step)
                    suspect.used_by = node.name


def _still_holds(suspect: UnrecordedWrite, tensor: torch.Tensor) -> bool:
    """Return whether the unrecorded values are still there, or were when a recorded in-place operation read them."""
    node = node_of(tensor)
    if node is None:
        return is_view(tensor)  # detached in the meantime, so later operations use a value without a graph
    if isinstance(node, torch.autograd.function.BackwardCFunction) and node is not suspect.node:
        return False  # `mark_dirty` declared the modification, or an operation replaced the values
    # Reading the node of a view creates a new one after its base changed, even if no operation was recorded.
    return node is suspect.node or is_view(tensor) or any(below is suspect.node for below, _ in node.next_functions)


def is_custom_forward(frame: FrameType) -> bool:
    """Return whether a frame runs the forward of a custom Function."""
    names = frame.f_code.co_varnames[:1]
    if frame.f_code.co_name in ("backward", "vjp"):
        return False  # a backward that reads a saved tensor does not compute the loss from it
    return bool(names) and isinstance(frame.f_locals.get(names[0]), torch.autograd.function.FunctionCtx)
