"""What backward would do if it were called now.

While a program runs, nobody knows which loss it will call backward on; the newest root stands for it. Once the run is over the
losses are known, and each step gets the forecast of a backward from the next one.
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

    def add(self, node: GraphNode, tracked: TrackedTensor) -> None:
        """Adds the node of a tensor that was just made."""
        if not node.consumers:
            (self._scalars if tracked.shape == () else self._others)[node.id] = (node, tracked)

    def consume(self, node: GraphNode) -> None:
        """Removes what a new node was made from."""
        for input_ in node.inputs:
            if input_ is not None:
                self._scalars.pop(input_, None)
                self._others.pop(input_, None)

    def current(self) -> list[GraphNode | None]:
        """Returns the newest living scalar that backward has not used, else the newest such tensor, or nothing."""
        for roots in (self._scalars, self._others):
            while roots:
                node, tracked = roots[next(reversed(roots))]
                if not node.freed and tracked.node == node.id and tracked.ref() is not None:
                    return [node]
                del roots[node.id]
        return []


@dataclass(frozen=True)
class BackwardCall:
    """What a backward found.

    Attributes:
        call: the step that called it; `first` the first step that made a part of its graph.
        invalid: the saved tensors that no longer were what had been saved.
        wrong_since: the step from which on its gradient is wrong for another reason, or None.
        refused: it had no graph to go through, or one that was freed.
    """

    call: int
    first: int
    invalid: tuple[TrackedSave, ...]
    wrong_since: int | None
    refused: bool

    @classmethod
    def of(
        cls, call: int, made: int, visited: list[GraphNode], saves: list[TrackedSave], shared_since: int | None
    ) -> BackwardCall:
        """Return the view of a backward in the step `call` that starts from a root made in the step `made`.

        Args:
            shared_since: the step from which on two leaves share one gradient buffer, or None.
        """
        steps = [node.step for node in visited if node.inputs]
        wrong_steps = [node.untracked for node in visited if node.untracked is not None]
        if shared_since is not None:
            wrong_steps.append(shared_since)
        refused = not visited or any(node.freed for node in visited)
        first = min(steps) if steps and not refused else made
        return cls(call, first, tuple(one for one in saves if one.invalid), min(wrong_steps, default=None), refused)

    def at(self, step: int) -> Forecast:
        """Return the forecast of this backward after an earlier step."""
        if self.refused:
            return Forecast("raises-backward")
        known = [save for save in self.invalid if save.since is not None and save.since <= step]
        worst = [save for save in known if save.stale] or known
        if not worst:
            wrong_since = self.wrong_since is not None and self.wrong_since <= step
            return Forecast("silently-wrong" if wrong_since else "correct")
        outcome: Outcome = "raises-backward" if worst[0].stale else "silently-wrong"
        return Forecast(outcome, tuple(k.record_id for k in worst[:1] if k.record_id is not None))


UNSEEN = BackwardCall(-1, -1, (), None, refused=False)  # a call before those that were looked at


def with_hindsight(steps: tuple[Step, ...], backward_calls: list[BackwardCall]) -> tuple[Step, ...]:
    """Returns the steps, each with the forecast of the backward that the program went on to call."""
    steps_with_forecast, waiting = [], iter(backward_calls)
    ahead = next(waiting, None)
    for step in steps:
        while ahead is not None and ahead.call < step.index:
            ahead = next(waiting, None)
        if ahead is not None and ahead.first <= step.index < ahead.call:
            step = structs.replace(step, forecast=ahead.at(step.index))
        steps_with_forecast.append(step)
    return tuple(steps_with_forecast)


def forecast(roots: list[GraphNode | None], *, rooted: bool = False) -> Forecast | None:
    """Return the forecast of a backward from these nodes, or None without nodes; `rooted` says that it is starting."""
    if not roots:
        return None
    known = [root for root in roots if root is not None]
    refused = [root.refused for root in known if root.refused and root.refused.stale]
    if refused:
        return Forecast("raises-backward", tuple(k.record_id for k in refused if k.record_id is not None))
    if rooted and (len(known) < len(roots) or any(root.freed for root in known)):
        return Forecast("raises-backward")
    corrupted = [root.corrupted for root in known if root.corrupted]
    if corrupted:
        return Forecast("silently-wrong", tuple(k.record_id for k in corrupted if k.record_id is not None))
    if any(root.untracked is not None for root in known):
        return Forecast("silently-wrong")
    return Forecast("correct")
