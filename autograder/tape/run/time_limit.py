"""A time limit for a block of code, by the timer of the process: it raises an exception."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from traceback import walk_stack
from types import FrameType

SHORTEST = 0.01  # minimum of remaining seconds for which a timer that fired early is set again


class TimeUp(BaseException):
    """The time limit of a run was reached. Not an `Exception`, so that `except Exception` in the program does not catch it."""


def time_limit(
    seconds: float,
    error: Callable[[], BaseException] = TimeUp,
    repeat_seconds: float = 0.0,
    clock: Callable[[], float] = time.monotonic,
) -> AbstractContextManager[None]:
    """Return a context that raises an exception in its block when the time limit is reached.

    A process has a single timer (`signal.ITIMER_REAL`). If another limit is active (of a test runner or an outer
    block), it is paused and continued afterwards; if it ends before this limit, it stays active and this limit is not
    set. Outside the main thread, and on Windows, which has no such signal, there is no limit.

    Args:
        seconds: time limit, from the start of the block.
        error: creates the exception.
        repeat_seconds: interval at which the exception is raised again while the block runs; 0 raises it once.
        clock: returns the time in seconds; a clock that pauses extends the limit.
    """
    is_possible = threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")
    other = signal.getitimer(signal.ITIMER_REAL) if is_possible else (0.0, 0.0)
    if not is_possible or 0 < other[0] <= seconds:
        return nullcontext()
    return _TimeLimit(seconds, error, repeat_seconds, clock, other)


@dataclass
class _TimeLimit:
    """The limit of a block. `other` is the remaining time of another limit, and its interval.

    A signal may arrive between any two instructions, several in a row on a busy machine. If the exception were raised
    while the timer is set or restored, the timer would keep running and raise an exception somewhere else.
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
        # Another thread may be about to receive the last signal; the system drops it while signals are ignored.
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
        if frame is not None and (frame.f_locals.get("self") is self or _must_end(frame)):
            left = 2 * SHORTEST
        if left > SHORTEST:
            signal.setitimer(signal.ITIMER_REAL, left, self.repeat_seconds)
        else:
            raise self.error()


def _must_end(frame: FrameType) -> bool:
    """Return whether a part of PyTorch is being imported, such as the compiler by the first optimizer (torch 2.13), or a run undone.

    An interrupted import would leave modules in `sys.modules` that no later import completes, and so would a run whose
    modules were not all removed.
    """
    callers = [caller for caller, _ in walk_stack(frame)]
    imports = (caller.f_locals.get("name") for caller in callers if caller.f_code.co_name == "_find_and_load")
    undone = (caller.f_code for caller in callers if caller.f_code.co_name in ("importable", "given_to"))
    is_undone = any(code.co_filename.startswith(os.path.dirname(__file__)) for code in undone)
    return is_undone or any(str(name).startswith("torch.") for name in imports)
