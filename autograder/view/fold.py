"""Which nodes fold away: rounds of a loop, module and function calls, long straight stretches.

Nodes named in `keep` (a harmed saved tensor, who made it) stay in sight at the top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from autograder.tape.recording import Node

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
    def lines(self) -> tuple[int, int] | None:
        """First and last line of the user's code that made its nodes."""
        lines = [node.place.line for node in self.nodes if node.place]
        return (min(lines), max(lines)) if lines else None


def outline(nodes: Sequence[Node], keep: set[int], depth: int = 0) -> list[Node | Fold]:
    """Returns the nodes in order of creation, with folds in place of runs where they are more than LIMIT.

    Args:
        keep: ids of nodes that must not be hidden.
        depth: how many names of the nodes' scope the reader is already inside.
    """
    if len(nodes) <= LIMIT:
        return list(nodes)
    entries: list[Node | Fold] = []
    calls = [(name, list(run)) for name, run in groupby(nodes, key=lambda node: node.scope[depth : depth + 1])]
    for name, run in calls:
        if not name:
            entries += _rounds(run, keep)
        elif len(calls) == 1:
            entries += outline(run, keep, depth + 1)
        else:
            entries += _hide(name[0], outline(run, keep, depth + 1), keep)
    return _chunks(entries, keep) if len(entries) > 2 * LIMIT else entries


def _rounds(nodes: list[Node], keep: set[int]) -> list[Node | Fold]:
    """Returns the nodes with the middle rounds of a loop folded; the first and the last round stay."""
    rounds = _split(nodes)
    if len(nodes) <= LIMIT or len(rounds) < 4:
        return list(nodes)
    lines = [node.place.line for run in rounds[1:-1] for node in run if node.place]
    where = f"lines {min(lines)}–{max(lines)}" if min(lines) != max(lines) else f"line {lines[0]}"
    middle: list[Node | Fold] = [Fold(f"round {i}", list(run)) for i, run in enumerate(rounds[1:-1], 2)]
    title = f"rounds 2–{len(rounds) - 1} of {where}"
    return [*rounds[0], *_hide(title, _chunks(middle, keep), keep), *rounds[-1]]


def _split(nodes: list[Node]) -> list[list[Node]]:
    """Returns the nodes cut where the program jumped back to an earlier line."""
    rounds: list[list[Node]] = [[]]
    seen: set[int] = set()
    last = -1
    for node in nodes:
        line = node.place.line if node.place else last
        if line < last and line in seen:
            rounds.append([])
        seen.add(line)
        last = line
        rounds[-1].append(node)
    return rounds


def _chunks(entries: list[Node | Fold], keep: set[int]) -> list[Node | Fold]:
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
        folded += _hide(_span(part), _chunks(part, keep), keep)
    return folded


def _span(part: list[Node | Fold]) -> str:
    """Returns a title for neighbours: "rounds 2–26", or the lines they come from."""
    first, last = part[0], part[-1]
    if isinstance(first, Fold) and isinstance(last, Fold) and first.title.startswith("round "):
        return f"rounds {first.title.split()[1]}–{last.title.split()[1]}"
    lines = Fold("", part).lines
    return f"lines {lines[0]}–{lines[1]}" if lines else f"{len(part)} steps"


def _hide(title: str, inside: list[Node | Fold], keep: set[int]) -> list[Node | Fold]:
    """Returns one fold, or its inside where that is short or must stay in sight."""
    fold = Fold(title, inside)
    if len(fold.nodes) < 2:
        return inside
    if not keep.intersection(node.id for node in fold.nodes):
        return [fold]
    shown: list[Node | Fold] = []
    for hidden, run in groupby(inside, key=lambda entry: isinstance(entry, Fold) or entry.id not in keep):
        part = list(run)
        shown += _hide(f"{title} ({_span(part)})", part, keep) if hidden and len(part) > 1 and len(inside) > 3 else part
    return shown
