"""The one timer of a process: an exception in a block of code that runs too long."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import FrameType

SHORTEST = 0.01  # seconds; what is left of a limit that the timer was a little early for


class TimeUp(BaseException):
    """The time limit of a run. It is no `Exception`, so that `except Exception` in the program does not swallow it."""


def time_limit(
    seconds: float,
    error: Callable[[], BaseException] = TimeUp,
    repeat_seconds: float = 0.0,
    clock: Callable[[], float] = time.monotonic,
) -> AbstractContextManager[None]:
    """Returns a context that raises an exception in its block when the time is up.

    A process has one such timer (`signal.ITIMER_REAL`). If another limit is running (a test runner's, an outer block's), it is
    paused and continues afterwards; if it would end before this one, it stays in force and this one is not set. Outside
    the main thread, and on Windows, where no such signal arrives, there is no limit.

    Args:
        seconds: from the start of the block.
        error: makes the exception.
        repeat_seconds: raise again at this interval while the block is still running; 0 raises once.
        clock: counts the seconds; one that stands still at times gives the block more of them.
    """
    is_possible = threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")
    other = signal.getitimer(signal.ITIMER_REAL) if is_possible else (0.0, 0.0)
    if not is_possible or 0 < other[0] <= seconds:
        return nullcontext()
    return _TimeLimit(seconds, error, repeat_seconds, clock, other)


@dataclass
class _TimeLimit:
    """The limit of one block; `other` is what was left of another one, and its interval.

    A signal may come between any two instructions, on a busy machine several in a row. Raised where the timer is set or put back,
    an exception would leave it running, to be raised once more anywhere later.
    """

    seconds: float
    error: Callable[[], BaseException]
    repeat_seconds: float
    clock: Callable[[], float]
    other: tuple[float, float]

    def __enter__(self) -> None:
        self.is_over, self.began, self.end = False, time.monotonic(), self.clock() + self.seconds
        self.before = signal.signal(signal.SIGALRM, self._stop)
        signal.setitimer(signal.ITIMER_REAL, self.seconds, self.repeat_seconds)

    def __exit__(self, *_raised: object) -> None:
        self.is_over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        # Another thread may be about to receive the last signal: where signals are ignored, the system drops it.
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, self.before)
        left, interval = self.other
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(0.001, left - (time.monotonic() - self.began)), interval)

    def _stop(self, _number: int, frame: FrameType | None) -> None:
        if self.is_over:
            return
        left = self.end - self.clock()
        if frame is not None and frame.f_locals.get("self") is self and frame.f_code.co_name == "__exit__":
            return
        if frame is not None and (frame.f_locals.get("self") is self or _is_importing_torch(frame)):
            left = 2 * SHORTEST
        if left > SHORTEST:
            signal.setitimer(signal.ITIMER_REAL, left, self.repeat_seconds)
        else:
            raise self.error()


def _is_importing_torch(frame: FrameType | None) -> bool:
    """Returns whether a part of PyTorch is being imported, as its compiler is by the first optimizer (torch 2.13).

    Cut off in between, it would leave modules in `sys.modules` that no later import completes.
    """
    while frame is not None:
        if frame.f_code.co_name == "_find_and_load" and str(frame.f_locals.get("name")).startswith("torch."):
            return True
        frame = frame.f_back
    return False
