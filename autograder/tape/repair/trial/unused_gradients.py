"""Track gradients that a program computes and discards: those of values that a parameter no longer has.

The backward of a generator's loss also reaches the discriminator. If the discriminator's step came before it, this
gradient belongs to older weights, and the next `zero_grad()` clears it before a step uses it. A fix need not reproduce
it.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from autograder.tape.internals.mode_stack import next_sequence_number, sequence_number
from autograder.tape.run.engine import Backward
from autograder.tape.run.graph_walk import nodes_below
from autograder.tape.run.storages import fingerprint


class UnusedGradients:
    """Tracks the backward calls of a run.

    Attributes:
        unused: ids of the leaves with such a gradient that was cleared before the leaf's value changed.
        waiting: by id, the leaves whose `.grad` is such a gradient now, each with a fingerprint of the leaf.
    """

    def __init__(self) -> None:
        self.unused: set[int] = set()
        self.waiting: dict[int, tuple[Tensor, object]] = {}
        self._calls: list[tuple[int, dict[int, tuple]]] = []
        self._outdated: list[Tensor] = []

    def before_backward(self, call: Backward) -> list[Tensor]:
        """Return the leaves that receive a gradient of older values from this call."""
        self._settle()
        self._outdated = [] if call.returns else list(self._older(call))
        self._calls.append((next_sequence_number(), dict(zip(map(id, call.targets), call.keys, strict=False))))
        return self._outdated

    def after_backward(self) -> None:
        """Start to track the outdated gradients of the call."""
        self.waiting |= {id(leaf): (leaf, fingerprint(leaf)) for leaf in self._outdated}

    def end_early(self) -> None:
        """Treat all tracked gradients as unused, because it is not known what the program would have done with them."""
        self._settle()
        self.unused |= self.waiting.keys()

    def _settle(self) -> None:
        """Check whether the tracked gradients were used or cleared."""
        for key, (leaf, value) in list(self.waiting.items()):
            if fingerprint(leaf) != value:
                del self.waiting[key]  # an optimizer's step used it
            elif leaf.grad is None or not leaf.grad.any():
                self.unused.add(key)
                del self.waiting[key]

    def _older(self, call: Backward) -> Iterable[Tensor]:
        """Yield the leaves that were modified since an earlier call, after this call's graph had read them."""
        first_read = reads(call)
        for leaf, key in zip(call.targets, call.keys, strict=False):
            since = [
                known[id(leaf)]
                for number, known in self._calls
                if first_read.get(id(leaf), number) < number and id(leaf) in known
            ]
            if any(earlier != key for earlier in since):
                yield leaf


def reads(call: Backward) -> dict[int, int]:
    """Return the sequence number of the first node in this graph that read each leaf, by the `id` of the leaf."""
    found: dict[int, int] = {}
    for node in nodes_below(call.roots):
        for below, _ in node.next_functions:
            if hasattr(below, "variable"):
                key, number = id(below.variable), sequence_number(node)
                found[key] = min(number, found.get(key, number))
    return found
