"""A change of the source that was run, its effect on the computation, and its order of preference."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autograder.tape.repair.broken_program import Candidate

OTHER = 2  # level of changes with other gradients or updates
LAST = 3  # level of changes with other losses


@dataclass(frozen=True)
class TriedChange:
    """A change that was run, before or after its proof.

    Attributes:
        changes: difference in the computation, as a sentence; None if all values stay the same.
        level: 0 if all values stay the same, 1 if only variables have other values, `OTHER` if gradients or updates
            differ, `LAST` if losses differ or cannot be compared.
        lines: number of changed lines.
        rank: position of its kind in `KINDS`.
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
        """Whether every loss, gradient and update is the intended one."""
        return self.level < OTHER

    @property
    def order(self) -> tuple[int, int, int]:
        """The sort key. The lowest is preferred."""
        return self.level, self.lines, self.rank


def join(first: TriedChange, second: TriedChange) -> TriedChange:
    """Return the second change, whose source contains both, with the names of both kinds."""
    kinds = dict.fromkeys([first.candidate.kind, second.candidate.kind])
    return replace(second, candidate=replace(second.candidate, kind=", then ".join(kinds)), is_pair=True)


def is_like(one: Candidate, other: Candidate) -> bool:
    """Return whether a change adds nothing to another: it extends its edits, or has the same kind and position."""
    more = set(one.edits) > set(other.edits)
    return more or (one.kind == other.kind and one.edits[0].start == other.edits[0].start)
