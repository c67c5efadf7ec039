"""The backward trace: which nodes the engine visits, in order, and the gradient that leaves each.

Only a hook sees the gradients between nodes, and the engine no longer adds in place to a gradient that Python holds (PyTorch
2.13): the buffers' versions then differ from an unobserved run. So the trace has a run of its own, which decides nothing else.
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

MOST = 2_000  # nodes that a trace holds; nobody reads more, and each costs two hooks


@dataclass
class Visit:
    """One node that backward entered: the call's number, the node's place below its roots, and the gradient that left it."""

    call: int
    index: int
    name: str
    got: str = ""
    passed: bool = False
    message: str | None = None


class BackwardTrace(Listener):
    """Puts hooks on the nodes of each backward and removes them again; they read the gradients and return nothing."""

    def __init__(self, *, keep_graph: bool = False, first: int = 0):
        self.visits: list[Visit] = []
        self._keep_graph = keep_graph
        self._first = first  # the number of the first backward call that is traced
        self._calls = 0
        self._handles: list = []
        self._current: list[Visit] = []

    def keep_graph(self, asked: bool) -> bool:
        """Returns whether the graph is kept: always, where the same graph will be needed by another run."""
        return asked or self._keep_graph

    def before_backward(self, call: Backward) -> None:
        """Hooks the nodes that a backward is about to visit."""
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
        """Removes the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        for visit in self._current:
            visit.message = None if visit.passed else message_of(call.error)
        self.visits += self._current
        self._current = []
        self._calls += 1


def _text(gradients: tuple[Any, ...]) -> str:
    with unheard():  # our own reading is not the program's
        return ", ".join(values_text(gradient) for gradient in gradients if gradient is not None)


def node_of_visit(visit: Visit, state: RunState) -> int | None:
    """Returns the id of a visited node, or None where the observed run went another way."""
    nodes = state.visited[visit.call] if visit.call < len(state.visited) else []
    node = state.graph.nodes[nodes[visit.index]] if visit.index < len(nodes) else None
    return node.id if node is not None and node.name == visit.name else None


def backward_steps(trace: BackwardTrace, right: BackwardTrace, state: RunState) -> tuple[BackwardStep, ...]:
    """Returns the visits, each with what the same visit passed on in the run with cloned saves."""
    steps = []
    for index, visit in enumerate(trace.visits):
        node = node_of_visit(visit, state)
        if node is None:
            continue
        other = right.visits[index] if index < len(right.visits) else None
        true = other.got if other is not None and (other.call, other.name) == (visit.call, visit.name) else ""
        status: Literal["passed", "raised"] = "passed" if visit.passed else "raised"
        steps.append(BackwardStep(node, status, visit.got, true, visit.message, state.backward_calls[visit.call].call))
    return tuple(steps)
