"""Counts, from outside, what a submission's processes use."""

from __future__ import annotations

import psutil

from autograder.grade.wire.channel import ChannelError
from autograder.grade.wire.limits import MEBIBYTE, Limits

OWN_PROCESSES = 3  # the worker, the first process of its namespace, and the one that made that


class ResourceWatch:
    """The memory and the processes of everything that a server has forked.

    Attributes:
        verdict: which limit was exceeded, in words for the grade's reason; "" if none was.
    """

    def __init__(self, server: psutil.Process, limits: Limits) -> None:
        self._server, self._limits = server, limits
        # A fork's pages are the server's own until it writes; what it holds above that is the submission's.
        self._warm = max((_resident_bytes(process) for process in [server, *child_processes(server)]), default=0)
        self.verdict = ""

    def check(self) -> None:
        """Raises ChannelError if the submission uses more than it may."""
        family = child_processes(self._server)
        threads = sum(_threads(process) for process in family)
        memory = sum(max(0, _resident_bytes(process) - self._warm) for process in family)
        if threads > self._limits.processes + OWN_PROCESSES:
            self.verdict = f"it started more than {self._limits.processes} processes or threads"
        elif memory > self._limits.memory_bytes:
            self.verdict = f"it used more than {self._limits.memory_bytes // MEBIBYTE} MiB of memory"
        if self.verdict:
            raise ChannelError(self.verdict)


def child_processes(process: psutil.Process) -> list[psutil.Process]:
    """Returns all processes below this one; none if it is gone."""
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def _resident_bytes(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:
        return 0


def _threads(process: psutil.Process) -> int:
    try:
        return process.num_threads()
    except psutil.Error:
        return 0
