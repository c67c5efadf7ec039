"""A limit on the output that an answer prints during a check: a megabyte would delay the verdict in a notebook."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import TextIO

from autograder.locale.translations import translated

MOST = 4_000
"""Characters that one run of an answer may print. Jupyter stops all output of a kernel at one megabyte per second (server 2.17)."""


class ShortOutput(io.TextIOBase):
    """A text stream that passes on the first `MOST` characters."""

    def __init__(self, shown: TextIO) -> None:
        self._shown, self._written = shown, 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Pass on the text up to the limit; at the limit, write once that the rest is left out."""
        fits = max(MOST - self._written, 0)
        if self._written <= MOST < self._written + len(text):
            self._shown.write(f"{text[:fits]}\n{translated('… the rest of what this prints is left out.')}\n")
        elif fits:
            self._shown.write(text)
        self._written += len(text)
        return len(text)

    def flush(self) -> None:
        """Flush the underlying stream."""
        self._shown.flush()


@contextlib.contextmanager
def short_output() -> Iterator[None]:
    """Limit the output of the block, and send its stderr to stdout: text on stderr costs all points (nbgrader 0.9.6)."""
    output = ShortOutput(sys.stdout)
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        yield
