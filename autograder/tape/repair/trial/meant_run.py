"""Compute the intended results of a broken program: a run in which no in-place modification affects backward."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import Tensor

from autograder.tape.internals.tensor_fields import unheard
from autograder.tape.oracle.cloned_saves import ClonedSavesRun
from autograder.tape.oracle.leaf_writes import PermittedLeafWrites, SingleViews
from autograder.tape.repair.trial.trial_run import TrialRun
from autograder.tape.repair.trial.unused_gradients import UnusedGradients
from autograder.tape.run.engine import Backward
from autograder.tape.run.graph_walk import nodes_below
from autograder.tape.run.programs.program import Program


@dataclass
class MeantRun(TrialRun):
    """A run with private copies of all values that backward needs, and with the modifications of leaves that PyTorch forbids.

    If the program calls backward twice through one graph, the graph is kept. A leaf that was modified between the two
    calls receives no gradient from the second one, which would be the gradient of its old value.

    Attributes:
        keeps_graph: whether the graph is kept for a second call.
        takes_views_singly: whether each view of a multi-output function is replaced by a single view, which may be
            modified.
        thrown_away: number of leaves that end with a gradient of older values that the program would have cleared.
    """

    keeps_graph: bool = False
    takes_views_singly: bool = False
    thrown_away: int = 0
    _later: UnusedGradients = field(default_factory=UnusedGradients)
    _outdated: list[set[int]] = field(default_factory=list)
    _walked: list[tuple[set, dict[int, tuple]]] = field(default_factory=list)
    _before: dict[int, tuple[Tensor, Tensor | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._copies = ClonedSavesRun(keep_graph=self.keeps_graph)

    @contextlib.contextmanager
    def around(self, program: Program) -> Iterator[None]:
        """Return the context for the program's code."""
        views = SingleViews() if self.takes_views_singly else contextlib.nullcontext()
        with self._copies.around(), PermittedLeafWrites(), views, super().around(program):
            yield
        for call, outdated in zip(self.calls, self._outdated, strict=False):
            call.given = [(leaf, one) for leaf, one in call.given if leaf not in outdated & self._later.unused]
        self._walked, self._later = [], UnusedGradients()

    def keep_graph(self, asked: bool) -> bool:
        """Return whether to keep the graph."""
        return self._copies.keep_graph(asked)

    def before_backward(self, call: Backward) -> None:
        """Note the gradients of the leaves that this backward will not reach."""
        self._copies.before_backward(call)
        super().before_backward(call)
        self._outdated.append({id(leaf) for leaf in self._later.before_backward(call)})
        if self.keeps_graph:
            self._before = {id(leaf): (leaf, _copied(leaf.grad)) for leaf in self._stale(call)}

    def after_backward(self, call: Backward) -> None:
        """Remove the gradients of old values."""
        self._copies.after_backward(call)
        with unheard():
            for leaf, gradient in self._before.values():
                leaf.grad = gradient
        super().after_backward(call)
        self._later.after_backward()

    def ended_early(self) -> None:
        """Require no gradients of old values if it is not known whether the program would have used them."""
        self._later.end_early()

    def given(self, call: Backward) -> list[tuple[Tensor, Tensor]]:
        """Return the gradients of a call, without those of old values."""
        return [(leaf, gradient) for leaf, gradient in super().given(call) if id(leaf) not in self._before]

    def counts(self, leaf: Tensor) -> bool:
        """Return whether the program would have kept the leaf's gradient at the end."""
        cleared_later = id(leaf) in self._later.unused and id(leaf) in self._later.waiting
        self.thrown_away += cleared_later
        return not cleared_later

    def _stale(self, call: Backward) -> list[Tensor]:
        """Return the leaves that were modified since an earlier call through a part of this call's graph."""
        # The AccumulateGrad node of a leaf exists as long as the leaf and is part of every graph.
        nodes = {node for node in nodes_below(call.roots) if not hasattr(node, "variable")}
        keys = dict(zip(map(id, call.targets), call.keys, strict=False))
        earlier = [seen for walked, seen in self._walked if walked & nodes]
        self._walked.append((nodes, keys))
        return [
            leaf
            for leaf in call.targets
            if any(seen.get(id(leaf), keys[id(leaf)]) != keys[id(leaf)] for seen in earlier)
        ]


def _copied(gradient: Tensor | None) -> Tensor | None:
    return None if gradient is None else gradient.detach().clone()
