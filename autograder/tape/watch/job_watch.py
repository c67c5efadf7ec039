"""`autograder.watch()`: a context around training steps that reports the line of a harmful modification when backward fails."""

from __future__ import annotations

import threading
from contextlib import ContextDecorator
from typing import Literal, Self

from autograder.errors import InputError
from autograder.locale.translations import in_english
from autograder.tape.recording.verdict_types import Harm
from autograder.tape.watch.call_listener import CallListener
from autograder.tape.watch.watch_session import WatchSession

Check = Literal["versions", "bytes"]
CHECKS = ("versions", "bytes")

_lock = threading.RLock()
_open: list[WatchSession] = []  # at most one session, which all watches of the process share


class JobWatch(ContextDecorator):
    """The return value of `autograder.watch()`: a context manager, also usable as a decorator.

    Attributes:
        harms: the saved tensors that were modified in place before backward, with the lines of the modifications. They
            come from errors of backward and, with `check="bytes"`, also from modifications that backward does not
            detect.
    """

    def __init__(self, check: Check):
        self.bytes = check == "bytes"
        self.harms: tuple[Harm, ...] = ()
        self._entered: list[tuple[CallListener, int]] = []

    def __enter__(self) -> Self:
        with _lock:
            if not _open:
                _open.append(WatchSession())
                _open[0].install()
            session = _open[0]
            session.watchers.append(self)
            listener = session.listener()
            if self.bytes:
                session.check_bytes()
            if listener.absent():
                listener.listen()
            listener.users += 1
            self._entered.append((listener, threading.get_ident()))
        return self

    def __exit__(self, *_: object) -> None:
        with _lock:
            listener, thread = self._entered.pop()
            listener.users -= 1
            if not listener.users and thread == threading.get_ident():
                listener.stop()
            session = _open[0]
            session.watchers.remove(self)
            if not session.watchers:
                _open.clear()
                session.remove()

    def found(self, harms: tuple[Harm, ...]) -> None:
        """Add the harms of a backward call, without duplicates."""
        self.harms = tuple(dict.fromkeys((*self.harms, *harms)))


def watch(check: Check = "versions") -> JobWatch:
    """Return a context that explains errors of backward in a running job.

    Use it around forward and backward of a step, or around a whole loop. It does not change the computation. An error
    of backward is raised as usual, with a note that names the line of the in-place modification, the alias it went
    through, and the line that needed the old values. `autograder.explain(error)` returns the same as data.

    Args:
        check: "versions" costs about as much time as PyTorch's own function modes, and about 30 bytes per call. "bytes"
            also keeps up to 4,096 elements of each saved tensor and warns, before backward, if one changed although its
            version counter did not (`.data`, NumPy). It does not detect a modification between the sampled elements.

    Raises:
        InputError: if `check` has another value.
    """
    if check not in CHECKS:
        raise InputError(
            in_english('{given} is not known here. Write "versions" or "bytes".', given=f"check={check!r}")
        )
    return JobWatch(check)
