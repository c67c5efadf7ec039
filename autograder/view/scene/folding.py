"""Folds of the graph: iterations of a loop, calls of modules and functions, and long runs of nodes, each shown as one block.

Nodes that the reader has to see (those that saved a modified tensor, and those that computed it) are never folded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from autograder.locale.translations import translated
from autograder.tape.recording.schema import Node

LIMIT = 26
"""The maximum number of nodes that are shown without folds."""

CHUNKS = 10
"""The number of parts that a long fold opens into."""


@dataclass(frozen=True)
class Fold:
    """Nodes shown as one block.

    Attributes:
        title: the title of the block.
        inside: the nodes and further folds that are shown when it is opened.
        round: the number of a loop's iteration, if it is one.
    """

    title: str
    inside: list[Node | Fold] = field(default_factory=list)
    round: int = 0

    @property
    def nodes(self) -> list[Node]:
        """All nodes in it, at any depth."""
        return [node for entry in self.inside for node in (entry.nodes if isinstance(entry, Fold) else [entry])]

    @property
    def lines(self) -> str:
        """The lines of the user's code that created its nodes: "line 4", "lines 4–7", or ""."""
        lines = [node.place.line for node in self.nodes if node.place]
        if not lines:
            return ""
        if min(lines) == max(lines):
            return translated("line {line}", line=lines[0])
        return translated("lines {lines}", lines=f"{min(lines)}–{max(lines)}")


@dataclass(frozen=True)
class FoldPlanner:
    """Decides which nodes are folded.

    Attributes:
        keep: ids of nodes that must not be hidden by a fold.
        born: node → index of the step that created it.
    """

    keep: set[int]
    born: dict[int, int]

    def fold(self, nodes: Sequence[Node], depth: int = 0) -> list[Node | Fold]:
        """Return the nodes; if there are more than LIMIT, some are replaced by folds.

        Args:
            nodes: the nodes in the order of their creation.
            depth: the number of names of the nodes' scope that the enclosing folds already contain.
        """
        if len(nodes) <= LIMIT:
            return list(nodes)
        entries: list[Node | Fold] = []
        calls = [(name, list(run)) for name, run in groupby(nodes, key=lambda node: node.scope[depth : depth + 1])]
        for name, run in calls:
            if not name:
                entries += self._rounds(run)
            elif len(calls) == 1:
                entries += self.fold(run, depth + 1)
            else:
                entries += self._hide(name[0], self.fold(run, depth + 1))
        return self._chunks(entries) if len(entries) > 2 * LIMIT else entries

    def _rounds(self, nodes: list[Node]) -> list[Node | Fold]:
        """Return the nodes with the iterations of a loop folded, except the first and the last."""
        rounds = self._split(nodes)
        if len(nodes) <= LIMIT or len(rounds) < 3:
            return list(nodes)
        middle: list[Node | Fold] = [
            Fold(translated("round {rounds}", rounds=i), list(run), i) for i, run in enumerate(rounds[1:-1], 2)
        ]
        where = {"rounds": _numbers(middle), "lines": Fold("", middle).lines}
        one, many = translated("round {rounds} of {lines}", **where), translated("rounds {rounds} of {lines}", **where)
        return [*rounds[0], *self._hide(many if len(middle) > 1 else one, self._chunks(middle)), *rounds[-1]]

    def _split(self, nodes: list[Node]) -> list[list[Node]]:
        """Return the nodes of each iteration; a new one begins when the program returns to a line that has already run."""
        rounds: list[list[Node]] = [[]]
        seen: set[int] = set()
        last, step = -1, None
        for node in nodes:
            line, now = node.place.line if node.place else last, self.born.get(node.id)
            if line <= last and line in seen and now != step:
                rounds.append([])
            seen.add(line)
            last, step = line, now
            rounds[-1].append(node)
        return rounds

    def _chunks(self, entries: list[Node | Fold]) -> list[Node | Fold]:
        """Group neighboring entries into about CHUNKS folds, and divide each fold in the same way."""
        nodes = Fold("", entries).nodes
        if len(nodes) <= LIMIT:
            return list(nodes)
        if len(entries) <= CHUNKS:
            return entries
        size = -(-len(entries) // CHUNKS)
        folded: list[Node | Fold] = []
        for start in range(0, len(entries), size):
            part = entries[start : start + size]
            folded += self._hide(_span(part), self._chunks(part))
        return folded

    def _hide(self, title: str, inside: list[Node | Fold]) -> list[Node | Fold]:
        """Return one fold, or its contents if they are few; nodes to keep remain between folds."""
        fold = Fold(title, inside)
        if len(fold.nodes) < 2:
            return inside
        if not self._is_kept(fold):
            return [fold]
        shown: list[Node | Fold] = []
        for is_kept, run in groupby(inside, key=self._is_kept):
            part = list(run)
            if is_kept:
                for entry in part:
                    shown += self._hide(entry.title, entry.inside) if isinstance(entry, Fold) else [entry]
            else:
                whole = len(part) < 2 or len(inside) <= 3
                shown += part if whole else self._hide(f"{title} ({_span(part)})", part)
        return shown

    def _is_kept(self, entry: Node | Fold) -> bool:
        """Return whether an entry is or contains a node to keep."""
        nodes = entry.nodes if isinstance(entry, Fold) else [entry]
        return not self.keep.isdisjoint(node.id for node in nodes)


def _span(part: list[Node | Fold]) -> str:
    """Return a title for neighboring nodes: "rounds 2–26", or their lines."""
    if all(isinstance(entry, Fold) and entry.round for entry in part):
        return translated("rounds {rounds}", rounds=_numbers(part))
    return Fold("", part).lines or translated("{count} steps", count=len(part))


def _numbers(rounds: list[Node | Fold]) -> str:
    """Return the numbers of rounds: "2–26", or "2"."""
    first, last = (str(entry.round) for entry in (rounds[0], rounds[-1]) if isinstance(entry, Fold))
    return first if first == last else f"{first}–{last}"
