"""What backward would do if it were called now."""

from __future__ import annotations

from autograder.tape.graph import GraphNode
from autograder.tape.recording import Forecast
from autograder.tape.tensors import Seen


class Heads:
    """The nodes that no other node consumes: what a program may call backward on next."""

    def __init__(self):
        self._scalars: dict[int, tuple[GraphNode, Seen]] = {}
        self._others: dict[int, tuple[GraphNode, Seen]] = {}

    def add(self, node: GraphNode, seen: Seen) -> None:
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
                if not node.freed and seen.ref() is not None:
                    return [node]
                del heads[node.id]
        return []


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
    if any(head.untracked for head in known):
        return Forecast("silently-wrong")
    return Forecast("correct")
