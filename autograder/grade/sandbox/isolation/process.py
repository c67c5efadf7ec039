"""The level "process": a process of its own with limits, for machines without namespaces."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator

from autograder.grade.sandbox.isolation.isolation_level import IsolationLevel


class ProcessLevel(IsolationLevel):
    """Limits on time, memory, files and processes, and nothing that hides the teacher's files."""

    name = "process"
    defends = (
        "a submission's time, memory, files and processes are limited, but it can read your files and use the network, so "
        "use it only for people you trust"
    )
    separates_submissions = False

    def probe(self) -> str:
        """Needs nothing but Linux."""
        return "" if sys.platform == "linux" else "the grader runs on Linux only; use a Linux machine or a container"

    def command(self, server: list[str]) -> list[str]:
        """Returns the server's own command line."""
        return server

    @contextlib.contextmanager
    def private_folder(self) -> Iterator[str]:
        """Yields a temporary folder, which is deleted after the block."""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            yield f"{folder}/home/work"
