"""`autograder.watch()`: two lines around a training step, or a loop of them, that tell which line harmed what when backward fails."""

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
_open: list[WatchSession] = []  # at most one: what all watches of the process share


class JobWatch(ContextDecorator):
    """What `autograder.watch()` returns: a context, or a decorator of a function.

    Attributes:
        harms: the saved tensors that backward needed and that were written into, each with its lines; those of an error that
            backward raised, and with `check="bytes"` those that it did not notice.
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
        """Adds the harms of one backward, each once."""
        self.harms = tuple(dict.fromkeys((*self.harms, *harms)))


def watch(check: Check = "versions") -> JobWatch:
    """Returns a context that explains a failing backward where it happens, and changes nothing else of the job.

    Around forward and backward, a step or a whole loop. An error of backward is raised as ever, with a note that names the line
    that wrote, through which alias, and the line that needed the old values; `autograder.explain(error)` gives the same as data.

    Args:
        check: "versions" costs about the time that PyTorch's own function modes take, and about 30 bytes a call. "bytes" also
            keeps up to 4,096 elements of each saved tensor and warns, before backward, of one that changed although no
            version counter moved (`.data`, NumPy); a write between the sampled elements goes unseen.

    Raises:
        InputError: `check` is neither.
    """
    if check not in CHECKS:
        raise InputError(
            in_english('{given} is not known here. Write "versions" or "bytes".', given=f"check={check!r}")
        )
    return JobWatch(check)
