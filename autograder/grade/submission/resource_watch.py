"""Supervision of a submission's processes from outside: their usage is read from /proc, and a violation of the limits ends them."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from autograder.grade.sandbox.isolation import file_text
from autograder.grade.wire.channel import POLL_SECONDS, ChannelError
from autograder.grade.wire.limits import MAX_WAIT_FACTOR, MEBIBYTE, MIN_WAIT_SECONDS, TIMEOUT_SIGNAL, Limits
from autograder.locale.messages import Message

SHARED_MAPPING = "/dev/zero (deleted)"  # the kernel's name for shared memory without a file


@dataclass(frozen=True)
class ProcessUsage:
    """The resource usage of one process."""

    parent: int  # the id of its parent
    threads: int  # the number of its threads
    resident_bytes: int  # its memory, including memory shared with the process from which it was forked
    own_seconds: float  # its processor time, without its children
    ended_seconds: float  # the processor time of its children that have ended and for which it has waited
    run_delay: float  # seconds in which its first thread was ready to run, but no processor was free


def descendants(process: psutil.Process, most: int) -> list[psutil.Process]:
    """Return the processes below this one, but not many more than `most`, because a program may start thousands."""
    if not Path(f"/proc/{process.pid}/task/{process.pid}/children").exists():
        with contextlib.suppress(psutil.Error):
            return process.children(recursive=True)  # a kernel without these lists: search all processes of the machine
        return []
    pids: list[int] = []
    waiting = [process.pid]
    while waiting and len(pids) <= most:
        lists = Path(f"/proc/{waiting.pop()}/task").glob("*/children")
        children = [int(child) for listed in lists for child in file_text(listed).split()]
        pids += children
        waiting += children
    family = []
    for pid in pids[: most + 1]:
        with contextlib.suppress(psutil.Error):  # it has ended
            family.append(psutil.Process(pid))
    return family


def usage_of(process: psutil.Process) -> ProcessUsage | None:
    """Return the resource usage of a process; None if it has ended."""
    try:
        with process.oneshot():
            times = process.cpu_times()
            return ProcessUsage(
                parent=process.ppid(),
                threads=process.num_threads(),
                resident_bytes=process.memory_info().rss,
                own_seconds=times.user + times.system,
                ended_seconds=times.children_user + times.children_system,
                run_delay=_waited(file_text(f"/proc/{process.pid}/schedstat")),
            )
    except psutil.Error:
        return None


def proportional_bytes(pid: int) -> int:
    """Return the memory of a process that does not belong to a file, counting shared pages in part; 0 if it has ended."""
    lines = file_text(f"/proc/{pid}/smaps_rollup").splitlines()[1:]
    kibibytes = {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}
    return 1024 * sum(kibibytes.get(name, 0) for name in ("Pss_Anon", "Pss_Shmem", "SwapPss"))


def socket_count(pid: int) -> int:
    """Return the number of sockets in the network namespace of a process; 0 if it has ended."""
    words = file_text(f"/proc/{pid}/net/sockstat").split()
    return int(words[2]) if words[:2] == ["sockets:", "used"] else 0


def own_run_delay() -> float:
    """Return the `run_delay` of this process, at a tenth of the cost, because it is needed with every message to a submission."""
    file = _own_statistic(os.getpid())
    return 0.0 if file is None else _waited(os.pread(file, 200, 0).decode())


@functools.cache
def _own_statistic(_: int) -> int | None:
    """Return an open file descriptor; each process, identified by its id, keeps one until it ends."""
    try:
        return os.open("/proc/self/schedstat", os.O_RDONLY)
    except OSError:
        return None


def _waited(statistic: str) -> float:
    words = statistic.split()
    return int(words[1]) / 1e9 if len(words) > 1 else 0.0  # kernels without this statistic


LONGEST_TURN = 3.0  # maximum number of seconds for which a process may wait for a processor at a time
MOST_SOCKETS = 256  # each may use half a megabyte that does not belong to a process


class ResourceWatch:
    """The processes of one submission: those below a server, except `init_processes`, which do not run the submission's code."""

    def __init__(self, server: psutil.Process, limits: Limits, init_processes: int) -> None:
        self._server, self._limits, self._init_processes = server, limits, init_processes
        self._last_check = time.monotonic()
        self._processor = _ProcessorTime()
        self._idle = 0.0
        self._run_delay, self._grader_before = 0.0, own_run_delay()
        self._shared_before = psutil.virtual_memory().shared  # of the whole machine, with file systems in memory
        self.verdict = ""  # the exceeded limit, in words for the grade's reason
        self._end = self.clock() + limits.submission_seconds
        self._interrupt_at, self._kill_at = math.inf, self._end  # on the submission's own clock

    def clock(self) -> float:
        """Return seconds on the submission's own clock, which stops while other processes keep it waiting for a processor.

        It also stops while this process waits for a processor, because the submission is not answered during that time.
        """
        most = max(MIN_WAIT_SECONDS, (MAX_WAIT_FACTOR - 1) * self._limits.submission_seconds)
        return time.monotonic() - min(self._run_delay + self._grader_waited(), most)

    def _grader_waited(self) -> float:
        return own_run_delay() - self._grader_before

    @property
    def seconds_left(self) -> float:
        """The rest of the submission's time, in seconds."""
        return max(0.0, self._end - self.clock())

    def set_deadline(self, seconds: float, grace: float) -> None:
        """Let the current answer take `seconds`, and `grace` seconds more to stop; `check` enforces this."""
        self._interrupt_at = self.clock() + seconds
        self._kill_at = min(self._end, self._interrupt_at + grace)

    def check(self) -> None:
        """Raise ChannelError if the submission exceeds a limit. It measures at most ten times a second, however often it is called."""
        now = time.monotonic()
        if now - self._last_check < POLL_SECONDS:
            return
        passed, self._last_check = now - self._last_check, now
        self.verdict = self._exceeded(passed)
        if self.verdict:
            raise ChannelError(self.verdict)

    def _exceeded(self, passed: float) -> str:
        most = self._limits.processes + 1
        family = descendants(self._server, most + self._init_processes)
        init_processes, members = self._split(family)
        threads = sum(usage.threads for usage in members.values())
        if len(family) > most + self._init_processes or threads > most:
            return Message(
                "grade.processes|it started more than {count} processes or threads", count=self._limits.processes
            )
        used, waited = self._processor.add(members)
        # Linux adds a wait to its statistics when the wait is over, which may be several checks later.
        self._idle = min(LONGEST_TURN, self._idle + max(0.0, passed - used))
        waited = min(waited + self._grader_waited(), self._idle)
        self._idle -= waited
        self._run_delay += waited
        self._grader_before = own_run_delay()
        if self._processor.seconds > self._limits.submission_seconds:
            return Message(
                "grade.processor_time|it used more than {seconds} seconds of processor time",
                seconds=f"{self._limits.submission_seconds:g}",
            )
        if self._memory_exceeded(init_processes, members):
            return Message(
                "grade.memory|it used more than {size} MiB of memory", size=self._limits.memory_bytes // MEBIBYTE
            )
        if init_processes and socket_count(init_processes[-1]) > MOST_SOCKETS:
            return Message("grade.sockets|it opened more than {count} sockets", count=MOST_SOCKETS)
        return self._late(family, init_processes)

    def _late(self, family: list[psutil.Process], init_processes: list[int]) -> str:
        now = self.clock()
        if now > self._interrupt_at:
            self._interrupt_at = math.inf
            for process in family:
                with contextlib.suppress(psutil.Error):
                    if process.ppid() == (init_processes[-1] if init_processes else self._server.pid):
                        process.send_signal(TIMEOUT_SIGNAL)
        return Message("grade.time_limit|it exceeded its time limit") if now > self._kill_at else ""

    def _split(self, family: list[psutil.Process]) -> tuple[list[int], dict[int, ProcessUsage]]:
        """Return the init processes, outermost first, and the usage of each of the other processes."""
        usages = {process.pid: usage_of(process) for process in family}
        living = {pid: usage for pid, usage in usages.items() if usage is not None}
        init_processes = [self._server.pid]
        for _ in range(self._init_processes):
            inner = next((pid for pid, usage in living.items() if usage.parent == init_processes[-1]), None)
            if inner is None:
                break
            init_processes.append(inner)
            del living[inner]
        return init_processes[1:], living

    def _memory_exceeded(self, init_processes: list[int], usages: dict[int, ProcessUsage]) -> bool:
        most = self._limits.memory_bytes
        grown = psutil.virtual_memory().shared - self._shared_before
        # Shared memory without a file may be larger than the mapped part.
        if grown > most and any(SHARED_MAPPING in file_text(f"/proc/{pid}/maps") for pid in usages):
            return True
        if sum(usage.resident_bytes for usage in usages.values()) <= most:
            return False
        # A fork shares the server's pages until it writes; a holder, which does not write, has the same share of them.
        inherited = proportional_bytes(init_processes[-1] if init_processes else self._server.pid)
        return sum(proportional_bytes(pid) for pid in usages) - inherited > most


class _ProcessorTime:
    """The processor time of a changing set of processes."""

    def __init__(self) -> None:
        # The larger of two sums, because each omits something. One is the time of each process up to the last check; the
        # other is the time of the existing processes and of their children that have ended.
        self.seconds = 0.0
        self._sampled_seconds = 0.0
        self._last: dict[int, ProcessUsage] = {}

    def add(self, processes: dict[int, ProcessUsage]) -> tuple[float, float]:
        """Return the seconds that were used since the last call, and the seconds in which a process was kept waiting."""
        nothing = ProcessUsage(0, 0, 0, 0.0, 0.0, 0.0)
        pairs = [(usage, self._last.get(pid, nothing)) for pid, usage in processes.items()]
        self._last = processes
        self._sampled_seconds += sum(max(0.0, now.own_seconds - before.own_seconds) for now, before in pairs)
        before, living = self.seconds, sum(usage.own_seconds + usage.ended_seconds for usage in processes.values())
        self.seconds = max(self.seconds, self._sampled_seconds, living)
        return self.seconds - before, sum(max(0.0, now.run_delay - last.run_delay) for now, last in pairs)
