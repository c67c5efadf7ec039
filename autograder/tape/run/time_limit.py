"""The one timer of a process: an exception in a block of code that runs too long."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SHORTEST = 0.01  # seconds; what is left of a limit that the timer was a little early for


class TimeUp(BaseException):
    """The time limit of a run. It is no `Exception`, so that `except Exception` in the program does not swallow it."""


@contextmanager
def time_limit(
    seconds: float,
    error: Callable[[], BaseException] = TimeUp,
    repeat_seconds: float = 0.0,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Raises an exception in the block when its time is up.

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
    other, interval = signal.getitimer(signal.ITIMER_REAL) if is_possible else (0.0, 0.0)
    if not is_possible or 0 < other <= seconds:
        yield
        return

    end = clock() + seconds

    def stop(_number, _frame):
        if (left := end - clock()) > SHORTEST:
            signal.setitimer(signal.ITIMER_REAL, left, repeat_seconds)
        else:
            raise error()

    before, start = signal.signal(signal.SIGALRM, stop), time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, seconds, repeat_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if other:
            signal.setitimer(signal.ITIMER_REAL, max(0.001, other - (time.monotonic() - start)), interval)
