"""The time budget of an explanation, shared by all its runs, and a count of these."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field

from autograder.locale.languages import bound
from autograder.locale.messages import Message
from autograder.tape.run.entropy import Readings

SECONDS = 60.0
QUIET = 3.0  # seconds before the first progress message, and between two messages
SHORTEST = 0.05  # seconds of a run after the budget is spent, because a limit of 0 means no limit


@dataclass
class Budget:
    """A time limit in seconds for all runs, proofs and comparisons of an explanation, which ends each run of a program."""

    seconds: float = math.inf  # size of the budget, counted from `began` (by `time.monotonic`)
    # receives a sentence on the progress, at most every few seconds; None for no messages
    tell: Callable[[str], None] | None = None
    began: float = field(default_factory=time.monotonic)
    runs: int = 0  # number of runs of the program
    stage: str = ""  # short description of the current work
    quiet: float = QUIET  # seconds before the first progress message, and between two messages
    kept: float = 0.0  # seconds at the end of the budget that are reserved for the output, and that no run may use
    # clock readings of the program's first run, which all other runs reuse
    readings: Readings = field(default_factory=dict)
    due: float = math.inf  # time from which the next message does not wait for `quiet`

    def __post_init__(self) -> None:
        self._reported = time.monotonic()

    @property
    def left(self) -> float:
        """The remaining seconds, at least 0."""
        return max(0.0, self.began + self.seconds - self.kept - time.monotonic())

    @property
    def is_spent(self) -> bool:
        """Whether the budget is spent."""
        return self.left == 0.0

    def begin_run(self, seconds: float) -> float:
        """Count a run, and return its time limit: at most `seconds`, and at most the remaining budget."""
        self.runs += 1
        self.progress()
        return min(seconds, max(self.left, SHORTEST))

    def given(self, asked: float, limit: float) -> str:
        """Return the time limit of a run in words, rounded: the requested limit, or the whole budget if that was smaller."""
        seconds = asked if limit == asked else self.seconds
        share = f"{max(0.1, round(seconds, 1)):g}"
        if seconds < self.seconds < math.inf:
            return Message("budget.share|{share} of the {seconds} seconds", share=share, seconds=f"{self.seconds:g}")
        return Message("budget.seconds|{share} seconds", share=share)

    def progress(self, backwards: int = 0) -> None:
        """Report the progress, unless a message was sent recently. `backwards` is the number of backward calls of the run."""
        now = time.monotonic()
        if self.tell is None or (now - self._reported < self.quiet and now < self.due):
            return
        self._reported, self.due = now, math.inf
        calls = f", {backwards:,} backward call{'s' if backwards > 1 else ''}" if backwards else ""
        self.tell(f"{now - self.began:.0f} s: {self.stage or 'running'} (run {self.runs}{calls})")

    def active(self) -> AbstractContextManager[Budget]:
        """Count every run in the block, and end it when this budget is spent."""
        return bound(_IN_FORCE, self)


_IN_FORCE: ContextVar[Budget | None] = ContextVar("budget", default=None)


def current_budget() -> Budget:
    """Return the active budget, or a budget without a limit if no budget is active."""
    return _IN_FORCE.get() or Budget()
