"""The graph of a run: its nodes, their saved tensors, and which of these have changed since they were saved."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from autograder.tape.recording.schema import SavedEdge
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.storages import Memory, elements_of, fingerprint


@dataclass(eq=False)
class TrackedSave:
    """A tensor that a node saved for backward."""

    id: int
    node: GraphNode
    name: str
    # reads the tensor from the node without the version check; returns None after it was freed. Do not call it while a
    # hook of the node runs: the node is incomplete then, and reading it crashes the process (torch 2.13).
    saved: Callable[[], torch.Tensor | None]
    # the tensor as read from the new node, or a weak reference to it; None after it was freed
    tensor_or_reference: torch.Tensor | weakref.ref[Any] | None
    memory: Memory
    start: int
    stop: int
    version: int | None
    checked: bool  # whether backward compares versions: not for saved-tensor hooks, and not for attributes of ctx
    is_on_ctx: bool  # whether it is an attribute of ctx, which autograd does not check
    content: object = None  # fingerprint of its values when it was saved
    generation: int = 0  # how often its memory had been modified when it was saved
    tensor: int | None = None  # id of the tensor, or of a tensor with the same bytes
    counter: int = -1
    version_now: int | None = None
    changed: bool = False
    until: int | None = None  # number of modifications in the run before a backward used it
    used: bool = True  # whether backward reads its values; its version is compared in any case
    since: int | None = None  # index of the step in which it became invalid
    call: int = -1  # number of that backward
    freed: bool = False
    record_id: int | None = None  # its id as a SavedEdge; None for an attribute of ctx
    writes_before: int = 0  # number of modifications in the run before it was saved

    def record(self) -> SavedEdge:
        """Return the SavedEdge of this tensor."""
        assert self.record_id is not None
        return SavedEdge(
            self.record_id, self.node.id, self.name, self.memory.id, self.start, self.stop, self.version,
            self.version_now, self.changed, self.tensor, self.node.place,
        )  # fmt: skip

    def forget(self) -> None:
        """Drop the tensor, its reader (which keeps the node alive) and the copy of its values."""
        self.tensor_or_reference, self.saved, self.content = None, lambda: None, None

    def read(self) -> torch.Tensor | None:
        """Return the current tensor, or None if it was freed."""
        tensor = self.tensor_or_reference
        return tensor() if isinstance(tensor, weakref.ref) else tensor

    def differs(self) -> bool:
        """Return whether its values differ from the saved ones."""
        tensor = self.read()
        return tensor is not None and fingerprint(elements_of(tensor)) != self.content

    @property
    def checkpointed(self) -> bool:
        """Whether backward recomputes it (`torch.utils.checkpoint`, reentrant or not)."""
        return self.is_on_ctx and (self.checked or self.node.name == "CheckpointFunctionBackward")

    @property
    def stale(self) -> bool:
        """Whether backward will raise an error for it."""
        return self.checked and self.version_now != self.version

    @property
    def invalid(self) -> bool:
        """Whether it has changed since it was saved, by its values or by its version."""
        return self.changed or self.stale

    def overlaps(self, start: int, stop: int) -> bool:
        """Return whether it overlaps the bytes [start, stop) of its storage."""
        return self.start < stop and start < self.stop


@dataclass(eq=False)
class GraphNode:
    """A backward function. `node` is PyTorch's object, kept alive because the id of a freed object may be reused."""

    id: int
    node: Any
    name: str
    inputs: tuple[int | None, ...]
    place: Place
    scope: tuple[str, ...]
    step: int
    tensor: int | None = None
    saves: list[TrackedSave] = field(default_factory=list)
    consumers: list[GraphNode] = field(default_factory=list)
    refused: TrackedSave | None = None
    corrupted: TrackedSave | None = None
    freed: bool | None = None
    untracked: int | None = None
    is_custom: bool = False


# Our references to nodes keep saved tensors alive that the program alone would free, such as in an evaluation loop without
# backward. Beyond this number of bytes, nodes that no existing tensor reaches are released; the next limit is twice the
# size of the rest, and at least LEAST_BYTES.
LEAST_BYTES = 1 << 28


class Graph:
    """All nodes of a run, in order of first appearance."""

    def __init__(self) -> None:
        self.saved_bytes, self.limit = 0, LEAST_BYTES
        self.nodes: list[GraphNode] = []
        self.of: dict[object, GraphNode] = {}
        self.saves: list[TrackedSave] = []
        self._edges = 0

    def grow(self, root: Any, place: Place, scope: tuple[str, ...], step: int) -> list[GraphNode]:
        """Return the unknown nodes below `root` after adding them, inputs first."""
        new: list[GraphNode] = []
        stack = [root]
        while stack:
            unknown = [n for n, _ in stack[-1].next_functions if n is not None and n not in self.of]
            stack += unknown
            if not unknown and (node := stack.pop()) not in self.of:
                new.append(self._add(node, place, scope, step))
        return new

    def _add(self, node: Any, place: Place, scope: tuple[str, ...], step: int) -> GraphNode:
        below = [self.of[n] if n is not None else None for n, _ in node.next_functions]
        inputs = tuple(n.id if n else None for n in below)
        made = GraphNode(len(self.nodes), node, type(node).__name__, inputs, place, scope, step)
        made.is_custom = isinstance(node, torch.autograd.function.BackwardCFunction)
        for input_ in dict.fromkeys(n for n in below if n):
            input_.consumers.append(made)
            made.refused = made.refused or input_.refused
            made.corrupted = made.corrupted or input_.corrupted
            made.freed = made.freed or input_.freed
            made.untracked = input_.untracked if made.untracked is None else made.untracked
        self.nodes.append(made)
        self.of[node] = made
        return made

    def keep(self, save: TrackedSave) -> None:
        """Add the record of a tensor that a node saved."""
        if not save.is_on_ctx:
            save.record_id, self._edges = self._edges, self._edges + 1
        self.saved_bytes += save.stop - save.start
        self.saves.append(save)
        save.node.saves.append(save)

    def mark_invalid(self, save: TrackedSave, step: int) -> None:
        """Mark all nodes above a saved tensor, whose backward depends on it. Each is marked at most twice, so the cost stays linear."""
        if not (save.stale or save.used):
            return
        save.since = step if save.since is None else save.since
        self.mark_above(save.node, "refused" if save.stale else "corrupted", save)

    @staticmethod
    def mark_above(node: GraphNode, name: str, value: object) -> None:
        """Set an attribute of a node and of all nodes above it to `value`, unless it is set already."""
        stack = [node]
        while stack:
            above = stack.pop()
            if getattr(above, name) is None:
                setattr(above, name, value)
                stack.extend(above.consumers)

    def below(self, numbers: Iterable[int | None]) -> dict[int, GraphNode]:
        """Return the nodes of these numbers and all nodes below them by number, the nearest first."""
        waiting, nodes = list(numbers), dict[int, GraphNode]()
        for number in waiting:  # grows in the loop
            if number is not None and number not in nodes:
                nodes[number] = self.nodes[number]
                waiting += nodes[number].inputs
        return nodes

    def leaves_below(self, numbers: Iterable[int | None]) -> set[int]:
        """Return the ids of the leaves below the nodes of these numbers."""
        return {node.tensor for node in self.below(numbers).values() if node.tensor is not None and not node.inputs}

    def sweep(self, living: list[int]) -> None:
        """Release the nodes that cannot be reached from those in `living` (by id), with their saved tensors."""
        reached = self.below(living)
        for node in [node for node in self.of.values() if node.id not in reached]:
            del self.of[node.node]
            node.node = None
            for save in node.saves:
                self._let_go(save)
        self.limit = max(LEAST_BYTES, 2 * self.saved_bytes)

    def _let_go(self, save: TrackedSave) -> None:
        if not save.freed:
            save.freed = True
            save.forget()
            self.saved_bytes -= save.stop - save.start

    def close(self) -> None:
        """Drop all references to objects of the run. The recorded data stays."""
        for node in self.nodes:
            node.node = None
        for save in self.saves:
            save.forget()
        self.of = {}

    def release(self, node: GraphNode) -> list[TrackedSave]:
        """Return the saved tensors of `node` that a backward freed just now."""
        freed = [save for save in node.saves if not save.freed and not save.is_on_ctx and save.saved() is None]
        for save in freed:
            self._let_go(save)
        if freed:
            self.mark_above(node, "freed", True)
        return freed
