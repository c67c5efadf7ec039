"""Check the saved tensors of a graph when a backward call begins, trace the nodes that the engine visits, and record the effects.

Only hooks receive the gradients between nodes, and the engine does not accumulate in place into a gradient that Python
refers to (PyTorch 2.13), so the versions of the buffers differ from an unobserved run. The trace therefore has its own
run, which determines nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch

from autograder.errors import message_of
from autograder.tape.internals.tensor_fields import mode_paused, unwrapped, version_of
from autograder.tape.observe.forecast import BackwardCall, forecast
from autograder.tape.observe.links import Links, has_hooks
from autograder.tape.observe.memory_watcher import MemoryWatcher
from autograder.tape.observe.names import used_up_iterators
from autograder.tape.observe.nodes import TrackedSave
from autograder.tape.observe.state import RunState
from autograder.tape.observe.tensors import values_text
from autograder.tape.observe.writes import Writes
from autograder.tape.recording.schema import BackwardStep
from autograder.tape.run.engine import Backward, Listener
from autograder.tape.run.graph_walk import node_of, nodes_below

MOST = 2_000  # maximum number of nodes in a trace, because each needs two hooks and longer traces are not readable
NotFinite = Literal["", "here", "from zero"]  # whether a node computes nan or inf from finite gradients, or from zeros


@dataclass
class Visit:
    """A node that backward entered: the number of the call, the index of the node below the roots, and its gradients as text."""

    call: int
    index: int
    name: str
    got: str = ""
    passed: bool = False
    message: str | None = None
    not_finite: NotFinite = ""
    is_withheld: bool = False  # whether the node received a gradient and computed none for an input that requires grad


class BackwardTrace(Listener):
    """Adds hooks to the nodes of each backward and removes them afterwards. The hooks only read gradients."""

    def __init__(self, *, keeps_graph: bool = False, first: int = 0):
        self.visits: list[Visit] = []
        self.keeps_graph = keeps_graph
        self._first = first  # number of the first backward call to trace
        self._calls = 0
        self._handles: list[Any] = []
        self._current: list[Visit] = []

    def before_backward(self, call: Backward) -> None:
        """Add hooks to the nodes that a backward will visit."""
        self._current = []
        if self._calls < self._first:
            return
        nodes = nodes_below(call.roots, call.asked)
        if len(self.visits) + len(nodes) > MOST or call.creates_graph:
            return
        for index, node in enumerate(nodes):
            before, after = self._hooks(Visit(self._calls, index, type(node).__name__), node)
            self._handles.append(node.register_prehook(before))
            if not hasattr(node, "variable"):
                self._handles.append(node.register_hook(after))

    def _hooks(self, visit: Visit, node: Any) -> Any:
        required = [edge is not None for edge, _ in node.next_functions]

        def before(incoming: Any) -> None:
            self._current.append(visit)
            if hasattr(node, "variable"):
                visit.got, visit.passed = _text(_plain(incoming)), True

        def after(outgoing: Any, incoming: Any) -> None:
            outgoing = _plain(outgoing)
            visit.got, visit.passed = _text(outgoing), True
            visit.not_finite = _source_of_nan(outgoing, _plain(incoming))
            missing = (is_asked and given is None for is_asked, given in zip(required, outgoing, strict=False))
            visit.is_withheld = any(missing) and any(given is not None for given in incoming)

        return before, after

    def after_backward(self, call: Backward) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        for visit in self._current:
            visit.message = None if visit.passed else message_of(call.error)
        self.visits += self._current
        self._current = []
        self._calls += 1

    def fits(self, state: RunState) -> bool:
        """Return whether the observed run has each visited node. A checkpoint recomputes nothing in a run with copies."""
        calls = range(len(state.backward_calls))
        return all(node_of_visit(visit, state) is not None for visit in self.visits if visit.call in calls)


def _plain(gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(gradient if gradient is None else unwrapped(gradient) for gradient in gradients)


def _text(gradients: tuple[Any, ...]) -> str:
    with mode_paused():  # so that our own reads are not reported as the program's
        return ", ".join(values_text(gradient) for gradient in gradients if gradient is not None)


def _source_of_nan(outgoing: tuple[Any, ...], incoming: tuple[Any, ...]) -> NotFinite:
    """Return whether a node computes nan or inf from finite gradients, and whether those of the same elements are zero."""
    with mode_paused():
        bad = [gradient for gradient in outgoing if not _is_finite(gradient)]
        if not bad or not all(map(_is_finite, incoming)):
            return ""
        received = [gradient for gradient in incoming if gradient is not None and gradient.shape == bad[0].shape]
        is_zero = len(received) == len(incoming) == 1 and not bool(received[0][~bad[0].isfinite()].any())
        return "from zero" if is_zero else "here"


def _is_finite(gradient: Any) -> bool:
    """Return whether a gradient has no nan and inf, as far as is known: `isfinite` reads strided tensors only."""
    return gradient is None or gradient.layout != torch.strided or bool(gradient.isfinite().all())


def node_of_visit(visit: Visit, state: RunState) -> int | None:
    """Return the id of a visited node, or None if the observed run took another path."""
    nodes = state.backward_calls[visit.call].visited if visit.call < len(state.backward_calls) else ()
    node = state.graph.nodes[nodes[visit.index]] if visit.index < len(nodes) else None
    return node.id if node is not None and node.name == visit.name else None


def backward_steps(trace: BackwardTrace, right: BackwardTrace, state: RunState) -> Iterator[BackwardStep]:
    """Yield the visits, each with the gradients of the same visit in the run with cloned saves."""
    # By the node and not by the order of visits: the engine may reach two leaves in another order (PyTorch 2.13).
    others = {(visit.call, visit.index, visit.name): visit.got for visit in right.visits}
    for visit in trace.visits:
        if (node := node_of_visit(visit, state)) is not None:
            true, step = others.get((visit.call, visit.index, visit.name), ""), state.backward_calls[visit.call].step
            yield BackwardStep(node, "passed" if visit.passed else "raised", visit.got, true, visit.message, step)


class BackwardWatcher:
    """Checks the graph at the start and end of each backward call, separately for each thread."""

    def __init__(self, state: RunState, links: Links, watcher: MemoryWatcher, writes: Writes):
        self.state, self.links, self.watcher, self.writes = state, links, watcher, writes

    def begin(self, call: Backward) -> None:
        """Check the saved tensors that backward will use. At this point an overwritten tensor does harm."""
        state = self.state
        tracked = [self.links.track(root) for root in call.roots if isinstance(root, torch.Tensor)]
        for root in tracked:
            self.links.link(root, root.ref())
        nodes = nodes_below(call.roots, call.asked)
        visited = state.thread.visited = [state.graph.of[node] for node in nodes if node in state.graph.of]
        saves = [save for node in visited for save in node.saves if not save.freed]
        for memory in dict.fromkeys(save.memory for save in saves):
            if memory.alive():
                self.watcher.look(memory)
        for saved in saves:
            self._consume(saved)
        roots = [state.graph.of.get(node_of(root)) for root in call.roots]
        state.thread.step.forecast = forecast(roots, rooted=True)
        made = max((root.step for root in tracked), default=state.steps)
        targets = [self.links.track(target) for target in call.targets]
        here = state.statements.here()
        graph = BackwardCall.of(state.steps, made, visited, saves, state.shared_since)
        state.flow.backward(call, graph, targets, tracked, here)
        if (frame := state.statements.frame) is not None:
            state.flow.used_up.update((here, name) for name in used_up_iterators(frame))
        state.backward_calls.append(graph)
        state.thread.engine_depth += 1

    def _consume(self, save: TrackedSave) -> None:
        tensor = save.read()
        if tensor is None:
            return
        save.version_now = version_of(tensor)
        save.checked = save.checked and (save.is_on_ctx or not has_hooks(save.node.node, save.name))
        is_sparse = tensor.layout != torch.strided  # its memory is that of its values, which is not followed
        if not save.changed and (is_sparse or save.generation != save.memory.generation):
            save.changed = save.differs()
        if save.invalid:
            self.state.graph.mark_invalid(save, self.state.steps)
            self.state.consumed.append(save)
            save.until, save.call = len(self.state.writes), self.state.calls
            # The frames with the variables of an overwritten tensor exist only now.
            owner = self.state.tensors.all[save.tensor] if save.tensor is not None else None
            if owner is not None and owner.name is None:
                self.state.name_of(owner, look=True)

    def end(self, call: Backward) -> None:
        """Record the saved tensors that backward freed, and the gradient buffers that it modified."""
        state, place = self.state, self.state.statements.here()
        state.thread.engine_depth -= 1
        state.calls += 1
        if call.error is None and not call.returns:
            state.flow.fill([(target, self.links.track(target)) for target in call.targets])
        for node in state.thread.visited:
            state.thread.step.freed += state.graph.release(node)
        for number, target in zip(call.numbers, call.targets, strict=True):
            if (known := state.tensors.get(target)) is not None:
                state.targets[number] = known
            gradient = target.grad if target.is_leaf else None
            if gradient is not None:
                tracked = self.links.track(gradient)
                self.writes.check(tracked, gradient, "accumulate")
                state.buffers[tracked.memory] = self.links.track(target), place
