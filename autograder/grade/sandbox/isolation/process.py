"""The level "process": a process of its own with limits, for machines without namespaces."""

from __future__ import annotations

import sys

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

    def command(self, host: list[str]) -> list[str]:
        """Return the host's own command line."""
        return host
