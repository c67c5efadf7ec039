"""The backward walk: which nodes the engine visits, in order, and the gradient that leaves each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch

from autograder.tape.engine import Backward
from autograder.tape.memory import address_of
from autograder.tape.recording import BackwardStep
from autograder.tape.tensors import values_text

MOST = 2_000  # nodes a run's walks are told of; nobody reads more, and each costs two hooks


class Walks:
    """Puts hooks on the nodes of each backward and takes them off again; they read what passes and return nothing."""

    def __init__(self):
        self.visits: list[dict] = []
        self._handles: list = []
        self._current: list[dict] = []

    def start(self, call: Backward, nodes: Sequence[Any], step: int, givers: dict[int, Any] | None = None) -> None:
        """Hooks the nodes that a backward is about to visit; `givers` learns which node passed on the gradient at an address."""
        self._current = []
        if len(self.visits) + len(nodes) > MOST or call.creates_graph:
            return
        for node in nodes:
            before, after = self._hooks(node, step, {} if givers is None else givers)
            self._handles.append(node.node.register_prehook(before))
            if not hasattr(node.node, "variable"):
                self._handles.append(node.node.register_hook(after))

    def _hooks(self, node: Any, step: int, givers: dict[int, Any]):
        visit = {"node": node.id, "step": step, "got": "", "passed": False}
        leaf = hasattr(node.node, "variable")

        def before(incoming):
            self._current.append(visit)
            if leaf:
                visit.update(got=_text(incoming), passed=True)

        def after(outgoing, _incoming):
            visit.update(got=_text(outgoing), passed=True)
            for gradient in outgoing:
                place = None if gradient is None else address_of(gradient)
                if place is not None:
                    givers[place[0]] = node

        return before, after

    def stop(self, call: Backward) -> None:
        """Takes the hooks off."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        for visit in self._current:
            visit["message"] = None if visit["passed"] else str(call.error)
        self.visits += self._current
        self._current = []

    def records(self, truth: list[dict]) -> tuple[BackwardStep, ...]:
        """Returns the visits, each beside what the same visit passed on in a run where nothing could be spoilt."""
        steps = []
        for index, visit in enumerate(self.visits):
            true = truth[index]["got"] if index < len(truth) else ""
            status: Literal["passed", "raised"] = "passed" if visit["passed"] else "raised"
            steps.append(BackwardStep(visit["node"], status, visit["got"], true, visit["message"], visit["step"]))
        return tuple(steps)


def _text(gradients: tuple) -> str:
    with torch._C.DisableTorchFunction():  # our own reading is not the program's
        return ", ".join(values_text(gradient) for gradient in gradients if gradient is not None)
