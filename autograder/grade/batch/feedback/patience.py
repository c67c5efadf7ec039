"""Bounds the time for the pages of one notebook: what takes too long to colour or to typeset is shown as plain text."""

from __future__ import annotations

import time
from collections.abc import Callable
from html import escape

from autograder.tape.run.time_limit import TimeUp, time_limit

SECONDS = 20.0  # of processor time, for one page; those of a lesson take a fraction of one
SECONDS_OF_A_PART = 2.0


class Patience:
    """What is left of the time for one page.

    pygments, mistune and latex2mathml read most texts in proportion to their length; some that a submission can hold take
    the square of that.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self._left = seconds

    def html(self, make: Callable[[], str], text: str) -> str:
        """Returns what `make` returns, or the text as it is if that would take too long."""
        start = time.process_time()
        try:
            if self._left <= 0:
                raise TimeUp
            with time_limit(min(self._left, SECONDS_OF_A_PART), clock=time.process_time):
                return make()
        except (TimeUp, RecursionError):
            return f"<pre>{escape(text)}</pre>"
        finally:
            self._left -= time.process_time() - start
