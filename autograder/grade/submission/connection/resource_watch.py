"""Watches, from outside, what a submission's processes use, and ends what uses more than it may."""

from __future__ import annotations

import contextlib
import math
import time
from typing import NamedTuple

import psutil

from autograder.grade.submission.connection.process_usage import (
    ProcessUsage,
    descendants,
    has_shared_mapping,
    kept_waiting_here,
    proportional_bytes,
    shared_bytes_of_machine,
    sockets_beside,
    usage_of,
)
from autograder.grade.wire.channel import TICK, ChannelError
from autograder.grade.wire.limits import LEAST_WAIT, LONGEST_WAIT, MEBIBYTE, TIME_IS_UP, Limits
from autograder.locale.translations import in_english

LONGEST_TURN = 3.0  # seconds for which a process may wait for a processor at once
MOST_SOCKETS = 256  # each may hold half a megabyte that belongs to no process


class Deadline(NamedTuple):
    """When the submission hears that its time is up, and when it is ended, on its own clock."""

    told: float
    ended: float


class ResourceWatch:
    """The processes of one submission: those below a server, but for the ones that hold its namespaces.

    Args:
        server: the process that forks the worker.
        limits: what the submission may use.
        holders: how many processes stand between the server and the worker, and run nothing of the submission's.

    Attributes:
        verdict: which limit was exceeded, in words for the grade's reason; "" if none was.
    """

    def __init__(self, server: psutil.Process, limits: Limits, holders: int) -> None:
        self._server, self._limits, self._holders = server, limits, holders
        self._looked = time.monotonic()
        self._processor = _ProcessorTime()
        self._idle = 0.0
        self._kept_waiting, self._grader_before = 0.0, kept_waiting_here()
        self._shared_before = shared_bytes_of_machine()
        self.verdict = ""
        self._end = self.clock() + limits.submission_seconds
        self._deadline = Deadline(math.inf, self._end)

    def clock(self) -> float:
        """Returns seconds on the submission's own clock, which stands still while others keep it waiting for a processor.

        So does a processor that this process waits for: nobody answers the submission, or reads its answer, until then.
        """
        most = max(LEAST_WAIT, (LONGEST_WAIT - 1) * self._limits.submission_seconds)
        return time.monotonic() - min(self._kept_waiting + self._grader_waited(), most)

    def _grader_waited(self) -> float:
        return kept_waiting_here() - self._grader_before

    @property
    def processor_seconds(self) -> float:
        """What was used of processor time up to the last look."""
        return self._processor.seconds

    @property
    def seconds_left(self) -> float:
        """What is left of the submission's time."""
        return max(0.0, self._end - self.clock())

    def deadline(self, seconds: float, grace: float) -> Deadline:
        """Returns the deadline of an answer that may take so many seconds, and so many more to stop."""
        now = self.clock()
        return Deadline(now + seconds, min(self._end, now + seconds + grace))

    def wait_until(self, deadline: Deadline) -> None:
        """Sets until when `check` allows the submission to work on its answer."""
        self._deadline = deadline

    def check(self) -> None:
        """Raises ChannelError if the submission uses more than it may. Looks ten times a second, however often it is called."""
        now = time.monotonic()
        if now - self._looked < TICK:
            return
        passed, self._looked = now - self._looked, now
        self.verdict = self._exceeded(passed)
        if self.verdict:
            raise ChannelError(self.verdict)

    def _exceeded(self, passed: float) -> str:
        most = self._limits.processes + 1
        family = descendants(self._server, most + self._holders)
        if len(family) > most + self._holders:
            return in_english("it started more than {count} processes or threads", count=self._limits.processes)
        holders, own = self._split(family)
        threads = sum(usage.threads for usage in own.values())
        if threads > most:
            return in_english("it started more than {count} processes or threads", count=self._limits.processes)
        used, waited = self._processor.add(own)
        # Linux adds a wait to its statistics when it is over, and so perhaps some looks later.
        self._idle = min(LONGEST_TURN, self._idle + max(0.0, passed - used))
        waited = min(waited + self._grader_waited(), self._idle)
        self._idle -= waited
        self._kept_waiting += waited
        self._grader_before = kept_waiting_here()
        if self._processor.seconds > self._limits.submission_seconds:
            return in_english(
                "it used more than {seconds} seconds of processor time", seconds=f"{self._limits.submission_seconds:g}"
            )
        if self._memory_exceeded(holders, own):
            return in_english("it used more than {size} MiB of memory", size=self._limits.memory_bytes // MEBIBYTE)
        if holders and sockets_beside(holders[-1]) > MOST_SOCKETS:
            return in_english("it opened more than {count} sockets", count=MOST_SOCKETS)
        return self._late(family, holders)

    def _late(self, family: list[psutil.Process], holders: list[int]) -> str:
        now = self.clock()
        if now > self._deadline.told:
            self._deadline = self._deadline._replace(told=math.inf)
            for process in family:
                with contextlib.suppress(psutil.Error):
                    if process.ppid() == (holders[-1] if holders else self._server.pid):
                        process.send_signal(TIME_IS_UP)
        return in_english("it used up its time") if now > self._deadline.ended else ""

    def _split(self, family: list[psutil.Process]) -> tuple[list[int], dict[int, ProcessUsage]]:
        """Returns the holders, outermost first, and what each of the other processes uses."""
        found = {process.pid: usage_of(process) for process in family}
        own = {pid: usage for pid, usage in found.items() if usage is not None}
        holders = [self._server.pid]
        for _ in range(self._holders):
            inner = next((pid for pid, usage in own.items() if usage.parent == holders[-1]), None)
            if inner is None:
                break
            holders.append(inner)
            del own[inner]
        return holders[1:], own

    def _memory_exceeded(self, holders: list[int], own: dict[int, ProcessUsage]) -> bool:
        most = self._limits.memory_bytes
        grown = shared_bytes_of_machine() - self._shared_before
        if grown > most and has_shared_mapping(own):
            return True
        if sum(usage.resident_bytes for usage in own.values()) <= most:
            return False
        # A fork's pages are the server's until it writes; a holder, which writes nothing, has the same share of them.
        inherited = proportional_bytes(holders[-1] if holders else self._server.pid)
        return sum(proportional_bytes(pid) for pid in own) - inherited > most


class _ProcessorTime:
    """The processor time of a changing set of processes.

    Attributes:
        seconds: in all: the larger of two sums, because each misses something: what each process used up to the last look,
            and what those that exist now used, with their children that have ended.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._looked_at = 0.0
        self._last: dict[int, ProcessUsage] = {}

    def add(self, processes: dict[int, ProcessUsage]) -> tuple[float, float]:
        """Returns how many seconds were used since the last call, and for how many a process was kept waiting."""
        nothing = ProcessUsage(0, 0, 0, 0.0, 0.0, 0.0)
        pairs = [(usage, self._last.get(pid, nothing)) for pid, usage in processes.items()]
        self._last = processes
        self._looked_at += sum(max(0.0, now.own_seconds - before.own_seconds) for now, before in pairs)
        before, living = self.seconds, sum(usage.own_seconds + usage.ended_seconds for usage in processes.values())
        self.seconds = max(self.seconds, self._looked_at, living)
        return self.seconds - before, sum(max(0.0, now.kept_waiting - last.kept_waiting) for now, last in pairs)
