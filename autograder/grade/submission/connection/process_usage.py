"""The resource usage of processes, read from /proc, as described in proc(5)."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import psutil

SHARED_MAPPING = "/dev/zero (deleted)"  # the kernel's name for shared memory without a file


class ProcessUsage(NamedTuple):
    """The resource usage of one process.

    Attributes:
        parent: the id of its parent.
        threads: the number of its threads.
        resident_bytes: its memory, including memory shared with the process from which it was forked.
        own_seconds: its processor time, without its children.
        ended_seconds: the processor time of its children that have ended and for which it has waited.
        kept_waiting: seconds in which its first thread was ready to run, but no processor was free.
    """

    parent: int
    threads: int
    resident_bytes: int
    own_seconds: float
    ended_seconds: float
    kept_waiting: float


def child_processes(process: psutil.Process) -> list[psutil.Process]:
    """Return all processes below this one; [] if it has ended."""
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def descendants(process: psutil.Process, most: int) -> list[psutil.Process]:
    """Return the processes below this one, but not many more than `most`, because a program may start thousands."""
    if not Path(f"/proc/{process.pid}/task/{process.pid}/children").exists():
        return child_processes(process)  # a kernel without these lists: search all processes of the machine
    found: list[int] = []
    waiting = [process.pid]
    while waiting and len(found) <= most:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return [one for one in map(_process, found[: most + 1]) if one is not None]


def _children(pid: int) -> list[int]:
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for children in lists for child in _text(str(children)).split()]


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.Error:
        return None


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
                kept_waiting=kept_waiting(process.pid),
            )
    except psutil.Error:
        return None


def proportional_bytes(pid: int) -> int:
    """Return the memory of a process that does not belong to a file, counting shared pages in part; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return 0
    kibibytes = {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}
    return 1024 * sum(kibibytes.get(name, 0) for name in ("Pss_Anon", "Pss_Shmem", "SwapPss"))


def has_shared_mapping(pids: Iterable[int]) -> bool:
    """Return whether one of the processes has shared memory without a file, which may be larger than the mapped part."""
    return any(SHARED_MAPPING in _text(f"/proc/{pid}/maps") for pid in pids)


def shared_bytes_of_machine() -> int:
    """Return the memory of the whole machine that is shared, or in file systems in memory."""
    return int(psutil.virtual_memory().shared)


def sockets_beside(pid: int) -> int:
    """Return the number of sockets in the network namespace of a process; 0 if it has ended."""
    words = _text(f"/proc/{pid}/net/sockstat").split()
    return int(words[2]) if words[:2] == ["sockets:", "used"] else 0


def kept_waiting(pid: int) -> float:
    """Return the seconds in which the first thread of a process was ready to run, but no processor was free."""
    return _waited(_text(f"/proc/{pid}/schedstat"))


def kept_waiting_here() -> float:
    """Return the same for this process, at a tenth of the cost, because it is needed with every message to a submission."""
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


def _text(path: str) -> str:
    try:
        with open(
            path
        ) as file:  # Path.read_text takes twice as long, and this is called a hundred times for each submission
            return file.read()
    except OSError:
        return ""
