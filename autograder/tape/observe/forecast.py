"""Forecast the outcome of a backward call at each step.

During the run, the loss that the program will use is unknown, so the forecast is for the newest root. After the run,
the losses are known, and each step receives the forecast of the next backward.
"""

from __future__ import annotations

from dataclasses import dataclass

from autograder.tape.observe.nodes import GraphNode, TrackedSave
from autograder.tape.observe.tensors import TrackedTensor
from autograder.tape.recording.schema import Forecast
from autograder.tape.recording.verdict_types import Outcome


class BackwardRoots:
    """The nodes that no other node consumes: candidates for the root of the next backward."""

    def __init__(self) -> None:
        self._scalars: dict[int, tuple[GraphNode, TrackedTensor]] = {}
        self._others: dict[int, tuple[GraphNode, TrackedTensor]] = {}

    def add(self, node: GraphNode, tracked: TrackedTensor) -> None:
        """Add the node of a new tensor."""
        if not node.consumers:
            (self._scalars if tracked.shape == () else self._others)[node.id] = (node, tracked)

    def consume(self, node: GraphNode) -> None:
        """Remove the inputs of a new node."""
        for input_ in node.inputs:
            if input_ is not None:
                self._scalars.pop(input_, None)
                self._others.pop(input_, None)

    def current(self) -> list[GraphNode | None]:
        """Return the newest existing scalar that backward has not used, else the newest such tensor, or []."""
        for roots in (self._scalars, self._others):
            while roots:
                node, tracked = roots[next(reversed(roots))]
                if not node.freed and tracked.node == node.id and tracked.ref() is not None:
                    return [node]
                del roots[node.id]
        return []


@dataclass(frozen=True)
class BackwardCall:
    """The state of the graph at a backward call."""

    step: int  # index of the step that called it
    first: int  # index of the first step that created a part of its graph
    invalid: tuple[TrackedSave, ...]  # saved tensors that had changed since they were saved
    wrong_since: int | None  # index of the step from which its gradient is wrong for another reason, or None
    refused: bool  # whether it raised an error because its graph was empty or freed
    visited: tuple[int, ...]  # ids of the nodes of its graph

    @classmethod
    def of(
        cls, step: int, made: int, visited: list[GraphNode], saves: list[TrackedSave], shared_since: int | None
    ) -> BackwardCall:
        """Return the state at a backward call in the step `step`, from a root that the step `made` created.

        `visited` are the nodes of its graph, and `saves` their saved tensors. From the step `shared_since` on, two leaves
        share a gradient buffer.
        """
        steps = [node.step for node in visited if node.inputs]
        wrong_steps = [node.untracked for node in visited if node.untracked is not None]
        if shared_since is not None:
            wrong_steps.append(shared_since)
        refused = not visited or any(node.freed for node in visited)
        first = min(steps) if steps and not refused else made
        invalid, ids = tuple(save for save in saves if save.invalid), tuple(node.id for node in visited)
        return cls(step, first, invalid, min(wrong_steps, default=None), refused, ids)

    def at(self, step: int) -> Forecast:
        """Return the forecast of this backward after an earlier step."""
        if self.refused:
            return Forecast("raises-backward")
        invalid = [save for save in self.invalid if save.since is not None and save.since <= step]
        worst = [save for save in invalid if save.stale] or invalid
        if not worst:
            wrong_since = self.wrong_since is not None and self.wrong_since <= step
            return Forecast("silently-wrong" if wrong_since else "correct")
        outcome: Outcome = "raises-backward" if worst[0].stale else "silently-wrong"
        return Forecast(outcome, tuple(k.record_id for k in worst[:1] if k.record_id is not None))


UNSEEN = BackwardCall(-1, -1, (), None, refused=False, visited=())  # a call before the observed part of the run


def forecast(roots: list[GraphNode | None], *, rooted: bool = False) -> Forecast | None:
    """Return the forecast of a backward from these nodes, or None without nodes. `rooted` means that it is starting."""
    if not roots:
        return None
    nodes = [root for root in roots if root is not None]
    refused = [root.refused for root in nodes if root.refused and root.refused.stale]
    if refused:
        return Forecast("raises-backward", tuple(k.record_id for k in refused if k.record_id is not None))
    if rooted and (len(nodes) < len(roots) or any(root.freed for root in nodes)):
        return Forecast("raises-backward")
    corrupted = [root.corrupted for root in nodes if root.corrupted]
    if corrupted:
        return Forecast("silently-wrong", tuple(k.record_id for k in corrupted if k.record_id is not None))
    if any(root.untracked is not None for root in nodes):
        return Forecast("silently-wrong")
    return Forecast("correct")
