"""Folds of the graph: backward calls, iterations of a loop, modules, calls of functions, and runs of nodes, each shown as one block.

Nodes that the reader has to see (those that saved a modified tensor, and those that computed it) are never folded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, pairwise

from autograder.locale.translations import translated
from autograder.tape.recording.schema import Node

LIMIT, MAX_BLOCKS = 8, 5
"""The maximum number of nodes that are shown without folds, and of blocks next to the nodes to keep."""

CHUNKS = 8  # the number of parts that a long fold opens into


@dataclass(frozen=True)
class Fold:
    """Nodes shown as one block."""

    title: str  # the title of the block
    # the nodes and further folds that are shown when it is opened
    inside: list[Node | Fold] = field(default_factory=list)
    round: int = 0  # the number of a loop's iteration, if it is one
    is_run: bool = False  # whether it contains neighbors that have no name of their own

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
    """Decides which nodes are folded."""

    keep: set[int]  # ids of nodes that must not be hidden by a fold
    step_of_node: dict[int, int]  # node → index of the step that created it
    # node → the number of the backward call that follows its creation, from 1
    calls: Mapping[int, int] = field(default_factory=dict)
    # node → the modules around it, such as ("model", "blocks", "0"); the calls around it if it is missing
    paths: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def plan(self, nodes: Sequence[Node]) -> list[Node | Fold]:
        """Return the nodes, in the order of their creation, with folds; the backward call with nodes to keep, else the last, is open."""
        if len(nodes) <= LIMIT:
            return list(nodes)
        calls = [(number, list(run)) for number, run in groupby(nodes, key=lambda node: self.calls.get(node.id, 0))]
        wanted = [number for number, run in calls if any(node.id in self.keep for node in run)] or [calls[-1][0]]
        entries: list[Node | Fold] = []
        for is_open, some in groupby(calls, key=lambda call: call[0] in wanted):
            if is_open:
                entries += [entry for _, run in some for entry in self.fold(run)]
                continue
            called = [(translated("backward call {number}", number=number), number, run) for number, run in some]
            folds: list[Node | Fold] = [Fold(title, self.fold(run), number) for title, number, run in called]
            many = translated("backward calls {numbers}", numbers=_numbers(folds))
            entries += folds if len(folds) == 1 else [Fold(many, self._chunks(folds))]
        return self._merge(entries)

    def fold(self, nodes: Sequence[Node], depth: int = 0) -> list[Node | Fold]:
        """Return the nodes, in the order of their creation; if there are more than LIMIT, some are replaced with folds.

        The enclosing folds already contain the first `depth` names of the nodes' paths.
        """
        if len(nodes) <= LIMIT:
            return list(nodes)
        entries: list[Node | Fold] = []
        runs = groupby(nodes, key=lambda node: self._path(node)[depth : depth + 1])
        calls = [(name, list(run)) for name, run in runs]
        for name, run in calls:
            if not name:
                entries += self._rounds(run)
            elif len(calls) == 1:
                entries += self.fold(run, depth + 1)
            else:
                title = ".".join(self._path(run[0])[: depth + 1]) if run[0].id in self.paths else name[0]
                entries += self._folded(title, self.fold(run, depth + 1))
        is_kept = not self.keep.isdisjoint(node.id for node in nodes)
        return entries if is_kept or len(entries) <= LIMIT + 2 else self._chunks(entries)

    def _path(self, node: Node) -> tuple[str, ...]:
        """Return the names of the modules, else of the calls, around a node."""
        return self.paths.get(node.id, node.scope)

    def _rounds(self, nodes: list[Node]) -> list[Node | Fold]:
        """Return the nodes with the iterations of a loop folded, except the first and the last if nothing else is to be seen."""
        rounds = self._split(nodes)
        if len(nodes) <= LIMIT or len(rounds) < 3:
            return list(nodes)
        ends = int(len(rounds[0]) + len(rounds[-1]) <= LIMIT and self.keep.isdisjoint(node.id for node in nodes))
        middle: list[Node | Fold] = [
            Fold(translated("iteration {rounds}", rounds=i), list(run), i)
            for i, run in enumerate(rounds, 1)
            if not ends or 1 < i < len(rounds)
        ]
        where = {"rounds": _numbers(middle), "lines": Fold("", middle).lines}
        single, several = (
            translated("iteration {rounds} of {lines}", **where),
            translated("iterations {rounds} of {lines}", **where),
        )
        if not ends:
            parts = (self._folded(several, [entry]) if self._is_kept(entry) else [entry] for entry in middle)
            return list(chain.from_iterable(parts))
        return [*rounds[0], *self._folded(several if len(middle) > 1 else single, self._chunks(middle)), *rounds[-1]]

    def _split(self, nodes: list[Node]) -> list[list[Node]]:
        """Return the nodes of each iteration; a new single begins when the program returns to a line that has already run."""
        rounds: list[list[Node]] = [[]]
        seen: set[int] = set()
        last, step = -1, None
        for node in nodes:
            line, now = node.place.line if node.place else last, self.step_of_node.get(node.id)
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
            folded += self._folded(_span(part), self._chunks(part))
        return folded

    def _folded(self, title: str, inside: list[Node | Fold]) -> list[Node | Fold]:
        """Return one fold; its contents if they are few, or if some are nodes to keep."""
        fold = Fold(title, inside)
        if len(fold.nodes) < 2:
            return inside
        if not self._is_kept(fold):
            return [fold]
        parts = (self._folded(entry.title, entry.inside) if isinstance(entry, Fold) else [entry] for entry in inside)
        return list(chain.from_iterable(parts))

    def _merge(self, entries: list[Node | Fold]) -> list[Node | Fold]:
        """Join neighbors, the smallest first, until MAX_BLOCKS remain between the nodes to keep, or a few more without any."""
        entries, most = list(entries), MAX_BLOCKS if self.keep else LIMIT + 2
        sizes = [len(Fold("", [entry]).nodes) for entry in entries]
        free = [not self._is_kept(entry) for entry in entries]
        while sum(free) > most:
            pairs = [(sizes[i] + sizes[i + 1], i) for i, pair in enumerate(pairwise(free)) if all(pair)]
            if not pairs:
                break
            total, i = min(pairs)
            entries[i : i + 2], sizes[i : i + 2], free[i : i + 2] = [_join(*entries[i : i + 2])], [total], [True]
        return [
            Fold(entry.title, self._chunks(entry.inside), is_run=True)
            if isinstance(entry, Fold) and entry.is_run
            else entry
            for entry in entries
        ]

    def _is_kept(self, entry: Node | Fold) -> bool:
        """Return whether an entry is or contains a node to keep."""
        nodes = entry.nodes if isinstance(entry, Fold) else [entry]
        return not self.keep.isdisjoint(node.id for node in nodes)


def _join(*pair: Node | Fold) -> Fold:
    """Return two neighbors as one fold."""
    inside: list[Node | Fold] = []
    for entry in pair:
        inside += entry.inside if isinstance(entry, Fold) and entry.is_run else [entry]
    return Fold(_span(inside), inside, is_run=True)


def _span(part: list[Node | Fold]) -> str:
    """Return a title for neighbors: "iterations 2–26", the first and the last name, or their lines."""
    if all(isinstance(entry, Fold) and entry.round for entry in part):
        return translated("iterations {rounds}", rounds=_numbers(part))
    named = [entry for entry in part if isinstance(entry, Fold) and not entry.is_run and "." in entry.title]
    if 2 * len(Fold("", [*named]).nodes) > len(Fold("", part).nodes):
        return " … ".join(dict.fromkeys([named[0].title, named[-1].title]))
    return Fold("", part).lines or translated("{count} steps", count=len(part))


def _numbers(rounds: list[Node | Fold]) -> str:
    """Return the numbers of iterations: "2–26", or "2"."""
    first, last = (str(entry.round) for entry in (rounds[0], rounds[-1]) if isinstance(entry, Fold))
    return first if first == last else f"{first}–{last}"
