"""The time that everything done for one program may take together, and what was done in it so far."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from autograder.locale.translations import in_english
from autograder.tape.run.entropy import Readings

SECONDS = 60.0
QUIET = 3.0  # seconds before the first word of progress, and between two of them, for somebody who watches
SHORTEST = 0.05  # seconds that a run has though nothing is left: a limit of 0 would be none


@dataclass
class Budget:
    """Seconds on the clock, for every run, proof and comparison that an explanation needs.

    Each run of a program is cut off where the budget in force ends, no matter what asked for the run.

    Attributes:
        seconds: how many there are, from `began` on (by `time.monotonic`).
        tell: is given a sentence on how far the work is, at most every few seconds; None tells nobody.
        runs: how often a program was run.
        stage: what is being done, in a few words.
        quiet: seconds before the first word of progress, and between two of them.
        kept: seconds at the end of the budget that no run may use, because the answer has to be written in them.
        readings: what the clocks told the program in its first run, and tell it in each other one.
    """

    seconds: float = math.inf
    tell: Callable[[str], None] | None = None
    began: float = field(default_factory=time.monotonic)
    runs: int = 0
    stage: str = ""
    quiet: float = QUIET
    kept: float = 0.0
    readings: Readings = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begins with a quiet time."""
        self._told = time.monotonic()

    @property
    def left(self) -> float:
        """The seconds that are left, never below 0."""
        return max(0.0, self.began + self.seconds - self.kept - time.monotonic())

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.left == 0.0

    def begin_run(self, seconds: float) -> float:
        """Counts one more run, and returns how long it may take: at most `seconds`, and not beyond the end of the budget."""
        self.runs += 1
        self.progress()
        return min(seconds, max(self.left, SHORTEST))

    def given(self, asked: float, limit: float) -> str:
        """Returns the seconds that a run had, in words: what was asked for, not what was left of it; a share as one."""
        seconds = asked if limit == asked else self.seconds
        share = f"{max(0.1, round(seconds, 1)):g}"
        if seconds < self.seconds < math.inf:
            return in_english("{share} of the {seconds} seconds", share=share, seconds=f"{self.seconds:g}")
        return in_english("{share} seconds", share=share)

    def progress(self, backwards: int = 0) -> None:
        """Tells how far the work is, unless that was told a moment ago; `backwards` is how many calls the run has made."""
        now = time.monotonic()
        if self.tell is None or now - self._told < self.quiet:
            return
        self._told = now
        calls = f", {backwards:,} backward call{'s' if backwards > 1 else ''}" if backwards else ""
        self.tell(f"{now - self.began:.0f} s: {self.stage or 'running'} (run {self.runs}{calls})")

    @contextmanager
    def in_force(self) -> Iterator[Budget]:
        """Every run inside is counted here, and cut off where this budget ends."""
        before = _IN_FORCE.set(self)
        try:
            yield self
        finally:
            _IN_FORCE.reset(before)


_IN_FORCE: ContextVar[Budget | None] = ContextVar("budget", default=None)


def budget_in_force() -> Budget:
    """Returns the budget of the explanation that is being made; one without an end where none is."""
    return _IN_FORCE.get() or Budget()
