"""Proposes changes of a broken program, runs each, and keeps those that repair it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from autograder.tape.recording.verdict_types import Verdict
from autograder.tape.repair.broken_program import BrokenProgram, Candidate
from autograder.tape.repair.edits import EditableSource
from autograder.tape.repair.fix_text import changed_lines
from autograder.tape.repair.kinds.registry import KINDS
from autograder.tape.repair.meaning import Reference, changed_losses, changed_values, hides_a_leaf, keeps_losses
from autograder.tape.repair.program_factory import ProgramFactory
from autograder.tape.repair.trial_run import TrialRun, run_trial

CANDIDATES = 90  # candidates tried for one text
DEEPER = 6  # texts with one fault less that are searched once more
KEPT = 5
LAST = 3  # the level of changes that are only offered where nothing else repairs
Prove = Callable[[str], Verdict]


@dataclass(frozen=True)
class TriedChange:
    """A change that was run, before or after it was proven.

    Attributes:
        changes: what it computes differently, as a sentence; None where every value stays the same.
        level: 0 where every value stays the same, then 1 for other values, 2 for other gradients, `LAST` for other losses.
        lines: how many lines it changes.
        rank: the place of its kind in `KINDS`.
    """

    candidate: Candidate
    text: str
    lines: int
    rank: int
    level: int = 0
    changes: str | None = None
    other_gradients: bool = False

    @property
    def order(self) -> tuple[int, int, int]:
        """What it is sorted by: lower is preferred."""
        return self.level, self.lines, self.rank


@dataclass
class Search:
    """One search for repairs of one program."""

    factory: ProgramFactory
    verdict: Verdict
    prove: Prove
    deadline: float
    texts: set[str] = field(default_factory=set)
    tried: int = 0
    last_resorts: list[TriedChange] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Runs the program as it is, and with private copies of what it saves."""
        source = self.factory.source
        self.texts.add(source)
        self.reference = Reference(self.run(source), self.run(source, cloned_saves=True))

    def run(self, text: str, *, cloned_saves: bool = False) -> TrialRun:
        """Returns one run, cut off at the deadline."""
        left = max(self.deadline - time.monotonic(), 0.05)
        return run_trial(self.factory.make(text), seconds=left, cloned_saves=cloned_saves)

    def look(self, text: str, verdict: Verdict, depth: int = 2) -> list[TriedChange]:
        """Returns the proven changes of `text`, best first; where one change is not enough, pairs of changes."""
        working, failing = self.try_changes(text, verdict)
        proven: list[TriedChange] = []
        for found in sorted(working, key=lambda one: one.order):
            if len(proven) == KEPT or self.is_late():
                break
            if any(is_like(found.candidate, one.candidate) for one in proven):
                continue
            seen = self.prove(found.text)
            if seen.outcome == "correct":
                proven += [found] if found.other_gradients or self.keeps_gradients(seen) else []
            else:
                failing.append(found)
        if proven or depth == 1:
            return proven
        return self.look_deeper(failing, depth)

    def last_resort(self) -> list[TriedChange]:
        """Returns proven changes after which backward starts from other numbers; each says so."""
        proven: list[TriedChange] = []
        for found in sorted(self.last_resorts, key=lambda one: one.order):
            if len(proven) == KEPT or self.is_late():
                break
            if not any(is_like(found.candidate, one.candidate) for one in proven):
                proven += [found] if self.prove(found.text).outcome == "correct" else []
        return proven

    def look_deeper(self, failing: list[TriedChange], depth: int) -> list[TriedChange]:
        """Returns the repairs that take one more change after one of `failing`."""
        for failed in failing[:DEEPER]:
            if self.is_late():
                return []
            if found := self.look(failed.text, self.prove(failed.text), depth - 1):
                return [join(failed, one) for one in found]
        return []

    def try_changes(self, text: str, verdict: Verdict) -> tuple[list[TriedChange], list[TriedChange]]:
        """Returns the changes that run to the end and keep the values, and those that only fail with another error."""
        working: list[TriedChange] = []
        failing: list[TriedChange] = []
        for rank, candidate, changed in self.candidates(text, verdict):
            if self.is_late():
                break
            trial = self.run(changed)
            if trial.error is not None:
                if trial.error != self.reference.plain.error and trial.error.startswith("RuntimeError:"):
                    failing.append(TriedChange(candidate, changed, 0, rank, LAST))
                continue
            tried = TriedChange(candidate, changed, changed_lines(self.factory.source, changed), rank)
            if found := self.weigh(tried, trial):
                (self.last_resorts if found.level == LAST else working).append(found)
        return working, failing

    def weigh(self, found: TriedChange, trial: TrialRun) -> TriedChange | None:
        """Returns the change with a sentence on what it computes differently; None where no sentence covers it."""
        candidate = found.candidate
        if hides_a_leaf(self.reference, trial):
            return None
        said = candidate.changes if keeps_losses(self.reference, trial) else candidate.changes or candidate.may_change
        if not said and not keeps_losses(self.reference, trial):
            lost = changed_losses(self.reference, trial)
            return replace(found, changes=lost, other_gradients=True, level=LAST) if lost else None
        named = changed_values(self.reference, trial)
        level = 2 if said else 1 if named else 0
        return replace(found, changes=said or named, other_gradients=bool(said), level=level)

    def candidates(self, text: str, verdict: Verdict) -> Iterator[tuple[int, Candidate, str]]:
        """Yields each new text that a kind proposes, with the rank of its kind, at most `CANDIDATES` of them."""
        source = EditableSource(text)
        program = BrokenProgram(source, verdict, self.factory.file)
        proposed = [(rank, one) for rank, kind in enumerate(KINDS) for one in kind(program)]
        for rank, candidate in [*join_by_kind(program, proposed), *proposed][:CANDIDATES]:
            changed = source.apply(candidate.edits)
            if changed and changed not in self.texts and is_python(changed):
                self.texts.add(changed)
                self.tried += 1
                yield rank, candidate, changed

    def keeps_gradients(self, seen: Verdict) -> bool:
        """Whether each leaf gets the gradient that the oracles found for the program as it was written."""
        known = {name: one.true for name, one in self.verdict.gradients.items() if one.true is not None}
        return all(near(true, seen.gradients[name].got) for name, true in known.items() if name in seen.gradients)

    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() > self.deadline


def join(first: TriedChange, second: TriedChange) -> TriedChange:
    """Returns the second change, whose text holds both, under the names of both."""
    kinds = dict.fromkeys([first.candidate.kind, second.candidate.kind])
    return replace(second, candidate=replace(second.candidate, kind=", then ".join(kinds)))


def is_like(one: Candidate, other: Candidate) -> bool:
    """Whether a change adds nothing to another: it has the same edits and more, or is of the same kind at the same place."""
    more = set(one.edits) > set(other.edits)
    return more or (one.kind == other.kind and one.edits[0].start == other.edits[0].start)


def join_by_kind(program: BrokenProgram, proposed: list[tuple[int, Candidate]]) -> Iterator[tuple[int, Candidate]]:
    """Yields, for each kind, all its changes of blamed statements as one, where there are several and they do not overlap."""
    spans = [program.source.span(one) for one in program.suspects]
    groups: dict[tuple[int, str], list[Candidate]] = {}
    for rank, candidate in proposed:
        if any(start <= edit.start <= stop for edit in candidate.edits for start, stop in spans):
            groups.setdefault((rank, candidate.kind), []).append(candidate)
    for (rank, kind), some in groups.items():
        edits: set = set()
        for candidate in some:
            if program.source.apply([*edits, *candidate.edits]) is not None:
                edits |= set(candidate.edits)
        if len(some) > 1:
            yield rank, Candidate(kind, tuple(sorted(edits)), some[0].changes, some[0].may_change)


def is_python(text: str) -> bool:
    """Whether the text can be compiled."""
    try:
        compile(text, "candidate", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def near(one: object, other: object) -> bool:
    """Whether nested lists of numbers agree up to rounding and the oracle's finite step; None counts as zeros."""
    if one is None or other is None:
        return one is other or near_zero(other if one is None else one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(near(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) <= 2e-3 * max(abs(one), abs(other)) + 1e-4
    return one == other


def near_zero(value: object) -> bool:
    """Whether all the numbers of nested lists are zero."""
    return all(near_zero(one) for one in value) if isinstance(value, list) else value == 0
