"""What backward would do if it were called now.

While a program runs nobody knows which loss it will call backward on; the newest head is taken for it. When the run is over
the losses are known, and each step is told what a backward from the next one would have done at that moment.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import structs

from autograder.tape.observe.graph.nodes import GraphNode, TrackedSave
from autograder.tape.observe.graph.tensors import TrackedTensor
from autograder.tape.recording.schema import Forecast, Step
from autograder.tape.recording.verdict_types import Outcome


class BackwardRoots:
    """The nodes that no other node consumes: what a program may call backward on next."""

    def __init__(self):
        self._scalars: dict[int, tuple[GraphNode, TrackedTensor]] = {}
        self._others: dict[int, tuple[GraphNode, TrackedTensor]] = {}

    def add(self, node: GraphNode, seen: TrackedTensor) -> None:
        """Takes note of a tensor just made."""
        if not node.consumers:
            (self._scalars if seen.shape == () else self._others)[node.id] = (node, seen)

    def consume(self, node: GraphNode) -> None:
        """Drops what a new node was made from."""
        for input_ in node.inputs:
            if input_ is not None:
                self._scalars.pop(input_, None)
                self._others.pop(input_, None)

    def current(self) -> list[GraphNode | None]:
        """Returns the newest living scalar that backward has not been through, else the newest such tensor, or nothing."""
        for heads in (self._scalars, self._others):
            while heads:
                node, seen = heads[next(reversed(heads))]
                if not node.freed and seen.node == node.id and seen.ref() is not None:
                    return [node]
                del heads[node.id]
        return []


@dataclass(frozen=True)
class BackwardCall:
    """What a backward met.

    Attributes:
        call: the step that called it; `first` the first step that made a part of its graph.
        spoilt: the saved tensors that were no longer what they were.
        doubtful: the step from which on its gradient is wrong for another reason, or None.
        refused: it had no graph to walk, or one that was freed.
    """

    call: int
    first: int
    spoilt: tuple[TrackedSave, ...]
    doubtful: int | None
    refused: bool

    @classmethod
    def of(
        cls, call: int, made: int, visited: list[GraphNode], kept: list[TrackedSave], shared_since: int | None
    ) -> BackwardCall:
        """Returns what a backward in the step `call` meets, which starts from a root made in the step `made`.

        Args:
            shared_since: the step from which on two leaves share one gradient buffer, or None.
        """
        steps = [node.step for node in visited if node.inputs]
        doubts = [node.untracked for node in visited if node.untracked is not None]
        if shared_since is not None:
            doubts.append(shared_since)
        refused = not visited or any(node.freed for node in visited)
        first = min(steps) if steps and not refused else made
        return cls(call, first, tuple(one for one in kept if one.spoilt), min(doubts, default=None), refused)

    def at(self, step: int) -> Forecast:
        """Returns what this backward would have done after an earlier step."""
        if self.refused:
            return Forecast("raises-backward")
        known = [kept for kept in self.spoilt if kept.since is not None and kept.since <= step]
        worst = [kept for kept in known if kept.stale] or known
        if not worst:
            doubtful = self.doubtful is not None and self.doubtful <= step
            return Forecast("silently-wrong" if doubtful else "correct")
        outcome: Outcome = "raises-backward" if worst[0].stale else "silently-wrong"
        return Forecast(outcome, tuple(k.record_id for k in worst[:1] if k.record_id is not None))


def with_hindsight(steps: tuple[Step, ...], backward_calls: list[BackwardCall]) -> tuple[Step, ...]:
    """Returns the steps, each with the forecast of the backward that the program went on to call."""
    told, waiting = [], iter(backward_calls)
    ahead = next(waiting, None)
    for step in steps:
        while ahead is not None and ahead.call < step.index:
            ahead = next(waiting, None)
        if ahead is not None and ahead.first <= step.index < ahead.call:
            step = structs.replace(step, forecast=ahead.at(step.index))
        told.append(step)
    return tuple(told)


def forecast(heads: list[GraphNode | None], *, rooted: bool = False) -> Forecast | None:
    """Returns what backward from these nodes would do, or None where there are none; `rooted` says that it is starting."""
    if not heads:
        return None
    known = [head for head in heads if head is not None]
    refused = [head.refused for head in known if head.refused and head.refused.stale]
    if refused:
        return Forecast("raises-backward", tuple(k.record_id for k in refused if k.record_id is not None))
    if rooted and (len(known) < len(heads) or any(head.freed for head in known)):
        return Forecast("raises-backward")
    corrupted = [head.corrupted for head in known if head.corrupted]
    if corrupted:
        return Forecast("silently-wrong", tuple(k.record_id for k in corrupted if k.record_id is not None))
    if any(head.untracked is not None for head in known):
        return Forecast("silently-wrong")
    return Forecast("correct")
