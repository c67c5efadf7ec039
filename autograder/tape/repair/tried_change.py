"""A change of the source that was run: what it computes differently, and by what it is preferred."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autograder.tape.repair.broken_program import Candidate

OTHER = 2  # the level of changes after which other gradients or updates are computed
LAST = 3  # the level of changes after which backward starts from other numbers


@dataclass(frozen=True)
class TriedChange:
    """A change that was run, before or after it was proven.

    Attributes:
        changes: what it computes differently, as a sentence; None where every value stays the same.
        level: 0 where every value stays the same, 1 where only names hold other values; `OTHER` where gradients or updates differ,
            `LAST` where losses do, or where there are none to compare with.
        lines: how many lines it changes.
        rank: the place of its kind in `KINDS`.
    """

    candidate: Candidate
    text: str
    lines: int
    rank: int
    level: int = 0
    changes: str | None = None
    is_pair: bool = False

    @property
    def keeps_training(self) -> bool:
        """Whether every loss, gradient and update is as the program was meant to have them."""
        return self.level < OTHER

    @property
    def order(self) -> tuple[int, int, int]:
        """What it is sorted by: lower is preferred."""
        return self.level, self.lines, self.rank


def join(first: TriedChange, second: TriedChange) -> TriedChange:
    """Returns the second change, whose text holds both, under the names of both."""
    kinds = dict.fromkeys([first.candidate.kind, second.candidate.kind])
    return replace(second, candidate=replace(second.candidate, kind=", then ".join(kinds)), is_pair=True)


def is_like(one: Candidate, other: Candidate) -> bool:
    """Whether a change adds nothing to another: it has the same edits and more, or is of the same kind at the same place."""
    more = set(one.edits) > set(other.edits)
    return more or (one.kind == other.kind and one.edits[0].start == other.edits[0].start)
