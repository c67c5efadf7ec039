"""This machine as the place where a class is graded. Imports nothing that takes time, so that the servers can start first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autograder.grade.sandbox.isolation.isolation_level import IsolationLevel
from autograder.grade.sandbox.launch import ServerPool

if TYPE_CHECKING:
    from autograder.grade.where.grading_job import GradingTerms
    from autograder.grade.where.local_processes import GraderProcesses


class ThisMachine:
    """Grades here; a context manager.

    Args:
        level: how submissions are isolated.
        count: how many are graded at once.
    """

    def __init__(self, level: IsolationLevel, count: int) -> None:
        self._count, self._servers = count, ServerPool(level, count)

    def __enter__(self) -> ThisMachine:
        return self

    def __exit__(self, *error: object) -> None:
        self._servers.__exit__(*error)

    def start(self) -> None:
        """Starts the servers, which import PyTorch, and does not wait until they are ready."""
        self._servers.start()

    def graders(self, terms: GradingTerms) -> GraderProcesses:
        """Returns what grades by these terms; a context manager."""
        from autograder.grade.where.local_processes import GraderProcesses

        return GraderProcesses(terms, self._count, self._servers)
