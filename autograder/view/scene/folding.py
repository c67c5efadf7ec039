"""Which nodes fold away: rounds of a loop, module and function calls, long straight stretches.

Nodes that an `Outline` keeps (a harmed saved tensor, who made it) stay in sight at the top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from autograder.tape.recording.schema import Node

LIMIT = 26
"""Nodes that a picture shows before anything folds."""

CHUNKS = 10
"""Parts into which a long fold opens."""


@dataclass(frozen=True)
class Fold:
    """Nodes that stand as one block; opening it shows `inside`."""

    title: str
    inside: list[Node | Fold] = field(default_factory=list)

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
        return f"lines {min(lines)}–{max(lines)}" if min(lines) != max(lines) else f"line {lines[0]}"


@dataclass(frozen=True)
class Outline:
    """Folds nodes given in order of creation.

    Attributes:
        keep: ids of nodes that must not be hidden.
        born: node → the step that made it.
    """

    keep: set[int]
    born: dict[int, int]

    def of(self, nodes: Sequence[Node], depth: int = 0) -> list[Node | Fold]:
        """Returns the nodes, with folds in place of runs where they are more than LIMIT.

        Args:
            depth: how many names of the nodes' scope the reader is already inside.
        """
        if len(nodes) <= LIMIT:
            return list(nodes)
        entries: list[Node | Fold] = []
        calls = [(name, list(run)) for name, run in groupby(nodes, key=lambda node: node.scope[depth : depth + 1])]
        for name, run in calls:
            if not name:
                entries += self._rounds(run)
            elif len(calls) == 1:
                entries += self.of(run, depth + 1)
            else:
                entries += self._hide(name[0], self.of(run, depth + 1))
        return self._chunks(entries) if len(entries) > 2 * LIMIT else entries

    def _rounds(self, nodes: list[Node]) -> list[Node | Fold]:
        """Returns the nodes with the middle rounds of a loop folded; the first and the last round stay."""
        rounds = self._split(nodes)
        if len(nodes) <= LIMIT or len(rounds) < 3:
            return list(nodes)
        middle: list[Node | Fold] = [Fold(f"round {i}", list(run)) for i, run in enumerate(rounds[1:-1], 2)]
        count = f"round{'s' * (len(middle) > 1)} {_numbers(middle)}"
        return [*rounds[0], *self._hide(f"{count} of {Fold('', middle).lines}", self._chunks(middle)), *rounds[-1]]

    def _split(self, nodes: list[Node]) -> list[list[Node]]:
        """Returns the nodes cut where the program jumped back to a line that it had run before."""
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
        """Returns the entries in at most about CHUNKS folds of neighbours, again inside each."""
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
        """Returns one fold, or its inside where that is short or must stay in sight."""
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
    if all(isinstance(entry, Fold) and entry.title.startswith("round ") for entry in part):
        return f"rounds {_numbers(part)}"
    return Fold("", part).lines or f"{len(part)} steps"


def _numbers(rounds: list[Node | Fold]) -> str:
    """Returns the numbers of rounds: "2–26", or "2"."""
    first, last = (entry.title.split()[1] for entry in (rounds[0], rounds[-1]) if isinstance(entry, Fold))
    return first if first == last else f"{first}–{last}"
