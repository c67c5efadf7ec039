"""Check the saved tensors of a graph when a backward call begins, and record its effects when it ends."""

from __future__ import annotations

import threading

import torch

from autograder.tape.internals.tensor_fields import version_of
from autograder.tape.observe.forecast import BackwardCall, forecast
from autograder.tape.observe.graph.links import Links
from autograder.tape.observe.graph.nodes import GraphNode, TrackedSave
from autograder.tape.observe.graph.saved_tensors import has_hooks
from autograder.tape.observe.memory.watcher import MemoryWatcher
from autograder.tape.observe.memory.writes import Writes
from autograder.tape.observe.state import Buffer, RunState
from autograder.tape.run.engine import Backward
from autograder.tape.run.graph_walk import node_of, nodes_below


class _NodesOfThread(threading.local):
    def __init__(self) -> None:
        self.nodes: list[GraphNode] = []


class BackwardWatcher:
    """Checks the graph at the start and end of each backward call, separately for each thread."""

    def __init__(self, state: RunState, links: Links, watcher: MemoryWatcher, writes: Writes):
        self.state, self.links, self.watcher, self.writes = state, links, watcher, writes
        self._here = _NodesOfThread()

    def begin(self, call: Backward) -> None:
        """Check the saved tensors that backward will use. At this point an overwritten tensor does harm."""
        state = self.state
        for root in call.roots:
            if isinstance(root, torch.Tensor):
                self.links.link(self.links.meet(root), root)
        nodes = nodes_below(call.roots, call.asked)
        visited = self._here.nodes = [state.graph.of[node] for node in nodes if node in state.graph.of]
        saves = [save for node in visited for save in node.saves if not save.freed]
        for memory in dict.fromkeys(one.memory for one in saves):
            if memory.alive():
                self.watcher.look(memory)
        for one in saves:
            self._consume(one)
        roots = [state.graph.of.get(node_of(root)) for root in call.roots]
        state.current_step.forecast = forecast(roots, rooted=True)
        made = max(
            (self.links.meet(root).step for root in call.roots if isinstance(root, torch.Tensor)), default=state.steps
        )
        self._note_flow(call)
        state.backward_calls.append(BackwardCall.of(state.steps, made, visited, saves, state.shared_since))
        state.visited.append([node.id for node in visited])
        state.engine_depth += 1

    def _note_flow(self, call: Backward) -> None:
        state = self.state
        roots = [self.links.meet(root) for root in call.roots if isinstance(root, torch.Tensor)]
        targets = [self.links.meet(target) for target in call.targets]
        nodes = [root.node for root in roots]
        state.flow.backward(call, targets, roots, nodes, state.writes, self.state.statements.here())

    def _consume(self, save: TrackedSave) -> None:
        tensor = save.read()
        if tensor is None:
            return
        save.version_now = version_of(tensor)
        save.checked = save.checked and (save.stashed or not has_hooks(save.node.node, save.name))
        if not save.changed and save.generation != save.memory.generation:
            save.changed = save.differs()
        if save.invalid:
            self.state.graph.mark_invalid(save, self.state.steps)
            self.state.consumed.append(save)
            save.until, save.call = len(self.state.writes), self.state.calls
            self._name(save)

    def _name(self, save: TrackedSave) -> None:
        """Search for the name of an overwritten tensor while the frames with its variables exist."""
        owner = self.state.tensors.all[save.tensor] if save.tensor is not None else None
        if owner is not None and owner.name is None:
            self.state.name_of(owner, look=True)

    def end(self, call: Backward) -> None:
        """Record the saved tensors that backward freed, and the gradient buffers that it modified."""
        state, place = self.state, self.state.statements.here()
        state.engine_depth -= 1
        state.calls += 1
        if call.error is None and not call.returns:
            state.flow.fill([(target, self.links.meet(target)) for target in call.targets])
        for node in self._here.nodes:
            state.current_step.freed += state.graph.release(node)
        for number, target in zip(call.numbers, call.targets, strict=True):
            if (known := state.tensors.get(target)) is not None:
                state.targets[number] = known
            gradient = target.grad if target.is_leaf else None
            if gradient is not None:
                tracked = self.links.meet(gradient)
                self.writes.check(tracked, gradient, "accumulate")
                state.buffers[tracked.memory] = Buffer(self.links.meet(target), place)
