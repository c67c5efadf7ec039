"""From a tensor to the graph behind it: the nodes, and the tensors they keep."""

from __future__ import annotations

import weakref

import torch

from autograder.tape.internals.tensor_fields import version_of
from autograder.tape.observe.graph.nodes import GraphNode, TrackedSave
from autograder.tape.observe.graph.saved_tensors import hidden_in, kept_by, saved_version
from autograder.tape.observe.graph.tensors import TrackedTensor
from autograder.tape.observe.memory.watcher import MemoryWatcher
from autograder.tape.observe.state import RunState
from autograder.tape.run.engine import node_of, standing
from autograder.tape.run.storages import fingerprint


class Links:
    """Takes note of tensors that are met for the first time, and of nodes."""

    def __init__(self, state: RunState, watcher: MemoryWatcher):
        self.state, self.watcher = state, watcher

    def meet(
        self, tensor: torch.Tensor, by: str | None = None, sources: tuple[TrackedTensor, ...] = (), *, link: bool = True
    ) -> TrackedTensor:
        """Returns the record of a tensor; a new one where it is seen for the first time."""
        state = self.state
        known = state.tensors.get(tensor)
        if known is not None:
            return known
        count = len(state.tensors.all)
        seen = state.tensors.add(tensor, by, sources)
        for new in state.tensors.all[count:]:
            state.draft.tensors.append(new.id)
            new.step = state.steps
            state.draft.touch(new)
            self.watcher.begin(new.memory)
        if link and standing(tensor)[0]:
            self.link(seen, tensor, sources)
        return seen

    def link(self, seen: TrackedTensor, tensor: torch.Tensor, sources: tuple[TrackedTensor, ...] = ()) -> None:
        """Takes note of the node that made a tensor from `sources`, and of all below it."""
        state, node = self.state, node_of(tensor)
        if node is None:
            seen.node = None
            return
        known = state.graph.of.get(node)
        if known is None:
            if state.graph.held > state.graph.limit:
                state.graph.sweep([seen.node for seen in state.tensors.of.values() if seen.node is not None])
            for new in state.graph.grow(node, state.here(), state.scope(), state.steps):
                self._new_node(new, seen if new.node is node else None, sources)
            known = state.graph.of[node]
            known.tensor = seen.id
            state.heads.add(known, seen)
        if seen.node != known.id:
            seen.node = known.id
            state.draft.touch(seen)

    def _new_node(self, node: GraphNode, made: TrackedTensor | None, sources: tuple[TrackedTensor, ...]) -> None:
        self.state.draft.nodes.append(node.id)
        self.state.heads.consume(node)
        variable = getattr(node.node, "variable", None)
        if variable is not None:
            node.tensor = self.meet(variable).id
        near = tuple(tensor for seen in sources if (tensor := seen.ref()) is not None)
        for name, read, checked, stashed in kept_by(node.node, near):
            tensor = read()
            if tensor is not None:
                self._keep(node, name, read, tensor, checked, stashed, made)
        hidden, checked = hidden_in(node.node)
        for seen in dict.fromkeys(sources if hidden else ()):
            tensor = seen.ref()
            if tensor is not None:
                self._keep(node, ", ".join(hidden), weakref.ref(tensor), tensor, checked, True, made)

    def _keep(
        self, node: GraphNode, name: str, saved, tensor, checked: bool, stashed: bool, made: TrackedTensor | None
    ) -> None:
        state = self.state
        known = state.tensors.get(tensor)
        memory = known.memory if known else state.memories.of(tensor)
        memory.witnesses.append(saved if isinstance(saved, weakref.ref) else weakref.ref(tensor))
        self.watcher.begin(memory, always=True)
        now = version_of(tensor)
        kept = state.graph.keep(
            node, name, saved, tensor, memory, checked=checked, stashed=stashed, wrote=len(state.wrote),
            version=saved_version(node.node, name, tensor) if checked and not stashed else now,
        )  # fmt: skip
        kept.content, kept.generation = fingerprint(tensor, memory), memory.generation
        owner = known or self._owner(kept, now, made)
        kept.tensor = owner.id if owner else None
        counter = owner.counter if owner else state.tensors.new_counter(now)
        kept.counter, kept.version_now = counter.id, now
        counter.fresh.append(kept)
        memory.kept.append(kept)
        if not stashed:
            state.draft.saved.append(kept)
        if kept.stale:  # `b.mul_(b)`: the operation that saved it also wrote it
            self._stale_at_birth(kept)

    def _stale_at_birth(self, kept: TrackedSave) -> None:
        last = self.state.wrote[-1] if self.state.wrote else None
        if last is not None and last.memory is kept.memory:
            kept.wrote, kept.changed = last.index, last.changed
            last.harmed.append(kept)
        self.state.graph.spoil(kept, self.state.steps)

    def _owner(self, kept: TrackedSave, version: int | None, made: TrackedTensor | None) -> TrackedTensor | None:
        """Returns a known tensor that shares the saved one's bytes and counter: each read of a saved output is a new object."""
        for seen in ([made] if made and made.memory is kept.memory else []) + self.state.tensors.at(kept.memory):
            if (seen.start, seen.stop) == (kept.start, kept.stop) and seen.counter.version == version:
                return seen
        return None
