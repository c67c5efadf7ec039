"""Run code in each thread that a program starts. Modes, hooks and tracing are set per thread."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps

from autograder.tape.internals.entry_points import replaced


@contextmanager
def in_new_threads(around: Callable[[], AbstractContextManager]) -> Iterator[None]:
    """Run each new thread that starts in the block in a context that `around()` creates in that thread.

    `Thread._bootstrap_inner` runs first in threads of `threading`; `_thread` starts other threads (CPython 3.11 to
    3.14).
    """
    first, start = threading.Thread._bootstrap_inner, _thread.start_new_thread  # type: ignore[attr-defined]

    @wraps(first)
    def begun(thread):
        with around():
            first(thread)

    @wraps(start)
    def started(function, *args):
        def in_context(*own, **named):
            with around():
                return function(*own, **named)

        return start(in_context, *args)

    with (
        replaced(threading.Thread, "_bootstrap_inner", begun),
        replaced(_thread, "start_new_thread", started),
    ):
        yield
