"""Folds, as in a code editor: iterations of a loop, calls of modules and functions, long runs of nodes shown as one block.

Nodes that the reader has to see (those with a harmed saved tensor, and those that made it) are never folded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from autograder.locale.translations import translated
from autograder.tape.recording.schema import Node

LIMIT = 26
"""The largest number of nodes that is shown without folds."""

CHUNKS = 10
"""The number of parts that a long fold opens into."""


@dataclass(frozen=True)
class Fold:
    """Nodes shown as one block; opening it shows `inside`, nodes and further folds. `round` is the number of a loop's iteration."""

    title: str
    inside: list[Node | Fold] = field(default_factory=list)
    round: int = 0

    @property
    def nodes(self) -> list[Node]:
        """All nodes in it, at any depth."""
        return [node for entry in self.inside for node in (entry.nodes if isinstance(entry, Fold) else [entry])]

    @property
    def lines(self) -> str:
        """The lines of the user's code that made its nodes: "line 4", "lines 4–7", or nothing."""
        lines = [node.place.line for node in self.nodes if node.place]
        if not lines:
            return ""
        if min(lines) == max(lines):
            return translated("line {line}", line=lines[0])
        return translated("lines {lines}", lines=f"{min(lines)}–{max(lines)}")


@dataclass(frozen=True)
class FoldPlanner:
    """Decides which nodes fold.

    Attributes:
        keep: ids of nodes that no fold may hide.
        born: node → index of the step that made it.
    """

    keep: set[int]
    born: dict[int, int]

    def fold(self, nodes: Sequence[Node], depth: int = 0) -> list[Node | Fold]:
        """Returns the nodes, with folds among them where they are more than LIMIT.

        Args:
            nodes: in the order in which the program made them.
            depth: how many names of the nodes' scope the enclosing folds already name.
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
        """Returns the nodes with the iterations of a loop folded, except the first and the last."""
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
        """Returns the nodes of each iteration; a new one starts where the program goes back to a line that it has run before."""
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
        """Returns the entries as about CHUNKS folds of neighbours; each fold is divided in the same way."""
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
        """Returns one fold, or what it would hold where that is short; nodes to keep stay between folds."""
        fold = Fold(title, inside)
        if len(fold.nodes) < 2:
            return inside
        if not self.keep.intersection(node.id for node in fold.nodes):
            return [fold]
        shown: list[Node | Fold] = []
        for hidden, run in groupby(inside, key=lambda entry: isinstance(entry, Fold) or entry.id not in self.keep):
            part = list(run)
            whole = not hidden or len(part) < 2 or len(inside) <= 3
            shown += part if whole else self._hide(f"{title} ({_span(part)})", part)
        return shown


def _span(part: list[Node | Fold]) -> str:
    """Returns a title for neighbours: "rounds 2–26", or the lines they come from."""
    if all(isinstance(entry, Fold) and entry.round for entry in part):
        return translated("rounds {rounds}", rounds=_numbers(part))
    return Fold("", part).lines or translated("{count} steps", count=len(part))


def _numbers(rounds: list[Node | Fold]) -> str:
    """Returns the numbers of rounds: "2–26", or "2"."""
    first, last = (str(entry.round) for entry in (rounds[0], rounds[-1]) if isinstance(entry, Fold))
    return first if first == last else f"{first}–{last}"
