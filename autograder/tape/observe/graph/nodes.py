"""The graph as it grows: its nodes, the tensors they keep, and which of those no longer hold what was saved."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from autograder.tape.internals.saved_variables import is_read
from autograder.tape.recording.schema import SavedEdge
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.storages import Memory, extent_of, fingerprint


@dataclass(eq=False)
class TrackedSave:
    """One tensor that a node keeps for backward.

    Attributes:
        saved: asks the node for the tensor, unchecked; None once it was freed. Not to be called while one of the node's own
            hooks runs: the node is half made then, and reading it ends the process (torch 2.13).
        held: the tensor as the node gave it when it was new, or a weak reference to it; None once it was freed.
        checked: whether backward compares versions: not under saved-tensor hooks, not for what a custom Function stashed on ctx.
        stashed: it is an attribute of ctx, which autograd does not check.
        content, generation: its values, and how often its memory had changed, when it was saved.
        writes_before, until: how many writes the run had done when it was saved, and when a backward used it (the one numbered `call`).
        since: the step in which it became invalid.
        used: whether backward needs its values; its version is compared in any case.
        tensor: the id of the tensor it is, or shares its bytes with.
        record_id: its id as a SavedEdge; None for what is only stashed.
    """

    id: int
    node: GraphNode
    name: str
    saved: Callable[[], torch.Tensor | None]
    held: torch.Tensor | weakref.ref | None
    memory: Memory
    start: int
    stop: int
    version: int | None
    checked: bool
    stashed: bool
    content: object = None
    generation: int = 0
    tensor: int | None = None
    counter: int = -1
    version_now: int | None = None
    changed: bool = False
    until: int | None = None
    used: bool = True
    since: int | None = None
    call: int = -1
    freed: bool = False
    record_id: int | None = None
    writes_before: int = 0

    def record(self) -> SavedEdge:
        """Returns the frozen form."""
        assert self.record_id is not None
        return SavedEdge(
            self.record_id, self.node.id, self.name, self.memory.id, self.start, self.stop, self.version,
            self.version_now, self.changed, self.tensor, self.place,
        )  # fmt: skip

    def forget(self) -> None:
        """Lets go of the tensor and of the copy of its values; a reader would keep the node alive."""
        self.held, self.saved, self.content = None, _nothing, None

    def read(self) -> torch.Tensor | None:
        """Returns the tensor as it is now, or None where it is gone."""
        return self.held() if isinstance(self.held, weakref.ref) else self.held

    def differs(self) -> bool:
        """Returns whether its values are not those that were saved."""
        tensor = self.read()
        return tensor is not None and fingerprint(tensor) != self.content

    @property
    def place(self) -> Place:
        """The user's line whose operation saved it."""
        return self.node.place

    @property
    def checkpointed(self) -> bool:
        """Whether backward computes it again (`torch.utils.checkpoint`, in both of its forms)."""
        return self.stashed and (self.checked or self.node.name == "CheckpointFunctionBackward")

    @property
    def stale(self) -> bool:
        """Whether backward will refuse it."""
        return self.checked and self.version_now != self.version

    @property
    def invalid(self) -> bool:
        """Whether it is no longer what was saved, or backward thinks so."""
        return self.changed or self.stale

    def overlaps(self, start: int, stop: int) -> bool:
        """Returns whether the bytes [start, stop) of its storage meet it."""
        return self.start < stop and start < self.stop


@dataclass(eq=False)
class GraphNode:
    """One backward function; `node` is torch's own object, kept alive during the run because the id of a dead one may be reused."""

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
    freed: bool = False
    untracked: int | None = None
    is_custom: bool = False


# A node that we hold keeps its tensors alive, where the program alone would have released them (an evaluation loop that never calls
# backward). Beyond this many bytes, what no living tensor reaches is released; what is left then sets the next limit.
HELD = 1 << 28


def _nothing() -> None:
    return None


class Graph:
    """All nodes seen in one run, in order of first appearance."""

    def __init__(self):
        self.held, self.limit = 0, HELD
        self.nodes: list[GraphNode] = []
        self.of: dict[object, GraphNode] = {}
        self.saves: list[TrackedSave] = []
        self._edges = 0

    def grow(self, root: Any, place: Place, scope: tuple[str, ...], step: int) -> list[GraphNode]:
        """Returns the nodes below `root` that were not known, inputs first."""
        new: list[GraphNode] = []
        stack = [root]
        while stack:
            node = stack[-1]
            if node in self.of:
                stack.pop()
                continue
            unknown = [n for n, _ in node.next_functions if n is not None and n not in self.of]
            if unknown:
                stack.extend(unknown)
            else:
                stack.pop()
                new.append(self._add(node, place, scope, step))
        return new

    def _add(self, node, place: Place, scope: tuple[str, ...], step: int) -> GraphNode:
        below = [self.of[n] if n is not None else None for n, _ in node.next_functions]
        made = GraphNode(len(self.nodes), node, type(node).__name__, (), place, scope, step)
        made.is_custom = isinstance(node, torch.autograd.function.BackwardCFunction)
        made.inputs = tuple(n.id if n else None for n in below)
        for input_ in dict.fromkeys(n for n in below if n):
            input_.consumers.append(made)
            made.refused = made.refused or input_.refused
            made.corrupted = made.corrupted or input_.corrupted
            made.freed = made.freed or input_.freed
            made.untracked = input_.untracked if made.untracked is None else made.untracked
        self.nodes.append(made)
        self.of[node] = made
        return made

    def keep(self, node: GraphNode, name: str, saved, tensor: torch.Tensor, memory: Memory, **facts) -> TrackedSave:
        """Returns the record of one tensor that `node` keeps."""
        start, stop = extent_of(tensor) if memory.size else (0, 0)
        held = saved if isinstance(saved, weakref.ref) else tensor
        save = TrackedSave(len(self.saves), node, name, saved, held, memory, start, stop, **facts)
        save.version_now, save.used = save.version, is_read(node.node, name)
        if not save.stashed:
            save.record_id, self._edges = self._edges, self._edges + 1
        self.held += stop - start
        self.saves.append(save)
        node.saves.append(save)
        return save

    def mark_invalid(self, save: TrackedSave, step: int) -> None:
        """Marks every node above: its backward now meets this one. Each is marked at most twice, so the cost stays linear."""
        if not (save.stale or save.used):
            return
        save.since = step if save.since is None else save.since
        which = "refused" if save.stale else "corrupted"
        stack = [save.node]
        while stack:
            node = stack.pop()
            if getattr(node, which) is None:
                setattr(node, which, save)
                stack.extend(node.consumers)

    def mark_untracked(self, node: GraphNode, step: int) -> None:
        """Marks every node above: from this step on, one input holds values that its history does not give."""
        stack = [node]
        while stack:
            above = stack.pop()
            if above.untracked is None:
                above.untracked = step
                stack.extend(above.consumers)

    def sweep(self, living: list[int]) -> None:
        """Releases the nodes that cannot be reached from those in `living` (by id), with all they keep."""
        reached, stack = set(living), list(living)
        while stack:
            for number in self.nodes[stack.pop()].inputs:
                if number is not None and number not in reached:
                    reached.add(number)
                    stack.append(number)
        for node in [node for node in self.of.values() if node.id not in reached]:
            del self.of[node.node]
            node.node = None
            for save in node.saves:
                self._let_go(save)
        self.limit = max(HELD, 2 * self.held)

    def _let_go(self, save: TrackedSave) -> None:
        if not save.freed:
            save.freed = True
            save.forget()
            self.held -= save.stop - save.start

    def close(self) -> None:
        """Lets go of all that the run made: what is known of it stays."""
        for node in self.nodes:
            node.node = None
        for save in self.saves:
            save.forget()
        self.of = {}

    def release(self, node: GraphNode) -> list[TrackedSave]:
        """Return the saved tensors of `node` that a backward freed just now."""
        freed = [save for save in node.saves if not save.freed and not save.stashed and save.saved() is None]
        for save in freed:
            self._let_go(save)
        if freed:
            stack = [node]
            while stack:
                above = stack.pop()
                if not above.freed:
                    above.freed = True
                    stack.extend(above.consumers)
        return freed
