"""Execution in a separate process, for programs that may end their process. Imports only fast modules."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
from collections.abc import Callable

from autograder.errors import UnfinishedError
from autograder.locale.messages import Message


class ProcessEndedError(UnfinishedError):
    """The process ended before its work was done; the message gives the reason."""


class ProcessTimeoutError(UnfinishedError):
    """The process was killed because its time was up."""


def run_in_fork(work: Callable[[], int], seconds: float = math.inf) -> int:
    """Return the result of `work`, run in a fork of this process; without `fork` (Windows), in this process.

    After `seconds`, the fork is killed: its own signal handler would run only after the end of a long PyTorch call.

    Raises:
        ProcessEndedError: `os._exit`, a crash or a signal ended the process first.
        ProcessTimeoutError: its time was up.
    """
    if not hasattr(os, "fork"):
        return work()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _do(work, writing)
    os.close(writing)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the work, which reports its state
    late: list[bool] = []

    def kill() -> None:
        late.append(True)
        os.kill(child, signal.SIGKILL)

    timer = threading.Timer(seconds, kill)
    timer.daemon = True
    if seconds < threading.TIMEOUT_MAX:
        timer.start()
    try:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        timer.cancel()  # the id of the process may be reused
        signal.signal(signal.SIGINT, before)
    # A process started by the work may keep the pipe open, so read only the data that is already there.
    os.set_blocking(reading, False)
    try:
        done = os.read(reading, 1)
    except BlockingIOError:
        done = b""
    os.close(reading)
    if not done and late:
        raise ProcessTimeoutError(f"it was not done after {seconds:g} seconds")
    if not done:
        raise ProcessEndedError(reason_of_end(status))
    return status


def reason_of_end(status: int) -> str:
    """Return the reason why a process ended with this exit code before its work was done."""
    return f"signal {signal.Signals(-status).name}" if status < 0 else f"os._exit({status}) or a similar call"


def text_of_end(program: str, reason: str) -> str:
    """Return a sentence on a program that ended the process which was to explain it."""
    return Message(
        "explain.ended_process|{program}: the program ended the Python process ({reason}), so it could not be "
        "recorded. Remove that call, or name a function that does not make it.",
        program=program,
        reason=reason,
    )


def _do(work: Callable[[], int], writing: int) -> None:
    """Run the work, send a byte if it ends normally or raises, and exit this process."""
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
