"""Gradients that a program computes on the way and throws away: those of values that a parameter no longer has.

A generator's loss goes backward through the discriminator, too. Where the discriminator's step came in between, its gradient is
that of older weights, and the next `zero_grad()` clears it before any step has used it. A repair need not give it.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from autograder.tape.internals.mode_stack import next_sequence_number, sequence_number
from autograder.tape.run.engine import Backward
from autograder.tape.run.graph_walk import nodes_below
from autograder.tape.run.storages import fingerprint


class UnusedGradients:
    """Follows the backward calls of one run.

    Attributes:
        unused: the `id` of each leaf that at least once got such a gradient and was cleared before its value changed.
        waiting: by `id`, the leaves whose `.grad` holds such a gradient now, each with the leaf's bytes.
    """

    def __init__(self) -> None:
        self.unused: set[int] = set()
        self.waiting: dict[int, tuple[Tensor, object]] = {}
        self._calls: list[tuple[int, dict[int, tuple]]] = []
        self._outdated: list[Tensor] = []

    def before_backward(self, call: Backward) -> list[Tensor]:
        """Returns the leaves that get a gradient of older values from this call."""
        self._settle()
        self._outdated = [] if call.returns else list(self._older(call))
        self._calls.append((next_sequence_number(), dict(zip(map(id, call.targets), call.keys, strict=False))))
        return self._outdated

    def after_backward(self) -> None:
        """Waits for what becomes of the gradients that the call gave."""
        self.waiting |= {id(leaf): (leaf, fingerprint(leaf)) for leaf in self._outdated}

    def end_early(self) -> None:
        """Asks for none of the gradients that wait: what the program would have done with them is not known."""
        self._settle()
        self.unused |= self.waiting.keys()

    def _settle(self) -> None:
        """Looks at what became of the gradients that waited."""
        for key, (leaf, value) in list(self.waiting.items()):
            if fingerprint(leaf) != value:
                del self.waiting[key]  # a step used it
            elif leaf.grad is None or not leaf.grad.any():
                self.unused.add(key)
                del self.waiting[key]

    def _older(self, call: Backward) -> Iterable[Tensor]:
        """Yields the leaves that were written since an earlier call, and were read before that call for this one."""
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
    """Returns, by the `id` of each leaf, the number of the first node of this graph that read it."""
    found: dict[int, int] = {}
    for node in nodes_below(call.roots):
        for below, _ in node.next_functions:
            if hasattr(below, "variable"):
                key, number = id(below.variable), sequence_number(node)
                found[key] = min(number, found.get(key, number))
    return found
