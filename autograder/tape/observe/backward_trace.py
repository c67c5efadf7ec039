"""Trace a backward: the nodes that the engine visits, in order, and the gradients that each returns.

Only hooks receive the gradients between nodes, and the engine does not accumulate in place into a gradient that Python
refers to (PyTorch 2.13), so the versions of the buffers differ from an unobserved run. The trace therefore has its own
run, which determines nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from autograder.errors import message_of
from autograder.tape.internals.tensor_fields import unheard
from autograder.tape.observe.graph.tensors import values_text
from autograder.tape.observe.state import RunState
from autograder.tape.recording.schema import BackwardStep
from autograder.tape.run.engine import Backward, Listener
from autograder.tape.run.graph_walk import nodes_below

MOST = 2_000  # maximum number of nodes in a trace, because each needs two hooks and longer traces are not readable


@dataclass
class Visit:
    """A node that backward entered: the number of the call, the index of the node below the roots, and its gradients as text."""

    call: int
    index: int
    name: str
    got: str = ""
    passed: bool = False
    message: str | None = None


class BackwardTrace(Listener):
    """Adds hooks to the nodes of each backward and removes them afterwards. The hooks only read gradients."""

    def __init__(self, *, keep_graph: bool = False, first: int = 0):
        self.visits: list[Visit] = []
        self._keep_graph = keep_graph
        self._first = first  # number of the first backward call to trace
        self._calls = 0
        self._handles: list = []
        self._current: list[Visit] = []

    def keep_graph(self, asked: bool) -> bool:
        """Return True if another run will use the same graph, else `asked`."""
        return asked or self._keep_graph

    def before_backward(self, call: Backward) -> None:
        """Add hooks to the nodes that a backward will visit."""
        self._current = []
        if self._calls < self._first:
            return
        nodes = nodes_below(call.roots, call.asked)
        if len(self.visits) + len(nodes) > MOST or call.creates_graph:
            return
        for index, node in enumerate(nodes):
            before, after = self._hooks(Visit(self._calls, index, type(node).__name__), hasattr(node, "variable"))
            self._handles.append(node.register_prehook(before))
            if not hasattr(node, "variable"):
                self._handles.append(node.register_hook(after))

    def _hooks(self, visit: Visit, leaf: bool):
        def before(incoming):
            self._current.append(visit)
            if leaf:
                visit.got, visit.passed = _text(incoming), True

        def after(outgoing, _incoming):
            visit.got, visit.passed = _text(outgoing), True

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


def _text(gradients: tuple[Any, ...]) -> str:
    with unheard():  # so that our own reads are not reported as the program's
        return ", ".join(values_text(gradient) for gradient in gradients if gradient is not None)


def node_of_visit(visit: Visit, state: RunState) -> int | None:
    """Return the id of a visited node, or None if the observed run took another path."""
    nodes = state.visited[visit.call] if visit.call < len(state.visited) else []
    node = state.graph.nodes[nodes[visit.index]] if visit.index < len(nodes) else None
    return node.id if node is not None and node.name == visit.name else None


def backward_steps(trace: BackwardTrace, right: BackwardTrace, state: RunState) -> tuple[BackwardStep, ...]:
    """Return the visits, each with the gradients of the same visit in the run with cloned saves."""
    steps = []
    # By the node and not by the order of visits: the engine may reach two leaves in another order (PyTorch 2.13).
    others = {(visit.call, visit.index, visit.name): visit.got for visit in right.visits}
    for visit in trace.visits:
        node = node_of_visit(visit, state)
        if node is None:
            continue
        true = others.get((visit.call, visit.index, visit.name), "")
        status: Literal["passed", "raised"] = "passed" if visit.passed else "raised"
        steps.append(BackwardStep(node, status, visit.got, true, visit.message, state.backward_calls[visit.call].call))
    return tuple(steps)
