"""Work done in a process of its own, for programs that may end theirs. Imports nothing that takes time."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
from collections.abc import Callable

from autograder.errors import UnfinishedError


class EndedError(UnfinishedError):
    """The process ended before its work was done; the message says how."""


class LateError(UnfinishedError):
    """The process was ended because its time was up."""


def run_in_fork(work: Callable[[], int], seconds: float = math.inf) -> int:
    """Return the result of `work`, run in a fork of this process; without `fork` (Windows), in this process.

    After `seconds` the fork is ended, whatever it is at: a signal handler of its own would wait for the end of a long call of PyTorch.

    Raises:
        EndedError: `os._exit`, a crash or somebody's signal ended it first.
        LateError: its time was up.
    """
    if not hasattr(os, "fork"):
        return work()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _do(work, writing)
    os.close(writing)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the work, which says what it was at
    watch = _Watch(child, seconds)
    try:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        watch.stop()
        signal.signal(signal.SIGINT, before)
    # A process that the work left behind may hold the pipe open: what is not there by now does not come.
    os.set_blocking(reading, False)
    try:
        done = os.read(reading, 1)
    except BlockingIOError:
        done = b""
    os.close(reading)
    if not done and watch.has_ended_it:
        raise LateError(f"it was not done after {seconds:g} seconds")
    if not done:
        raise EndedError(f"signal {signal.Signals(-status).name}" if status < 0 else f"os._exit({status}) or the like")
    return status


class _Watch:
    """Ends a process when its time is up."""

    def __init__(self, process: int, seconds: float):
        self.has_ended_it = False
        self._timer = threading.Timer(seconds, self._end, [process]) if seconds < threading.TIMEOUT_MAX else None
        if self._timer:
            self._timer.daemon = True
            self._timer.start()

    def _end(self, process: int) -> None:
        self.has_ended_it = True
        os.kill(process, signal.SIGKILL)

    def stop(self) -> None:
        """The process has ended: its number may be another's now."""
        if self._timer:
            self._timer.cancel()


def _do(work: Callable[[], int], writing: int) -> None:
    """Never returns."""
    code = 1
    try:
        code = work()
        sys.stdout.flush()
        os.write(writing, b"d")
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        os.write(writing, b"d")
    finally:
        sys.stderr.flush()
        os._exit(code)
