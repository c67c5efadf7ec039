"""What processes use of the machine, read from outside: from /proc, as described in proc(5)."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import psutil

SHARED_MAPPING = "/dev/zero (deleted)"  # what the kernel calls shared memory without a file


class ProcessUsage(NamedTuple):
    """What one process uses.

    Attributes:
        parent: the id of its parent.
        threads: how many it has.
        resident_bytes: its memory, including what it shares with the process that it was forked from.
        own_seconds: of processor time, without its children.
        ended_seconds: of processor time of its children that have ended and that it has waited for.
        kept_waiting: seconds that its first thread was ready to run, and no processor was free.
    """

    parent: int
    threads: int
    resident_bytes: int
    own_seconds: float
    ended_seconds: float
    kept_waiting: float


def child_processes(process: psutil.Process) -> list[psutil.Process]:
    """Returns all processes below this one; none if it is gone."""
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def descendants(process: psutil.Process, most: int) -> list[psutil.Process]:
    """Returns the processes below this one, and stops soon after the first `most`, because a program may make thousands."""
    if not Path(f"/proc/{process.pid}/task/{process.pid}/children").exists():
        return child_processes(process)  # a kernel without these lists: all processes of the machine are looked at
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
    """Returns what a process uses; None if it is gone."""
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
    """Returns the memory of a process that belongs to no file; each page that others map, too, counts in part. 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return 0
    kibibytes = {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}
    return 1024 * sum(kibibytes.get(name, 0) for name in ("Pss_Anon", "Pss_Shmem", "SwapPss"))


def has_shared_mapping(pids: Iterable[int]) -> bool:
    """Returns whether one of the processes has shared memory without a file, which may hold more than is mapped."""
    return any(SHARED_MAPPING in _text(f"/proc/{pid}/maps") for pid in pids)


def shared_bytes_of_machine() -> int:
    """Returns the memory of the whole machine that is shared, or in file systems that are kept in memory."""
    return int(psutil.virtual_memory().shared)


def sockets_beside(pid: int) -> int:
    """Returns how many sockets exist in the network namespace of a process; 0 if it is gone."""
    words = _text(f"/proc/{pid}/net/sockstat").split()
    return int(words[2]) if words[:2] == ["sockets:", "used"] else 0


def kept_waiting(pid: int) -> float:
    """Returns for how many seconds the first thread of a process was ready to run, and no processor was free."""
    return _waited(_text(f"/proc/{pid}/schedstat"))


def kept_waiting_here() -> float:
    """Returns the same for this process, at a tenth of the cost: it is asked with every message to a submission."""
    file = _own_statistic(os.getpid())
    return 0.0 if file is None else _waited(os.pread(file, 200, 0).decode())


@functools.cache
def _own_statistic(_: int) -> int | None:
    """Returns an open file descriptor; each process, as known by its id, has one until it ends."""
    try:
        return os.open("/proc/self/schedstat", os.O_RDONLY)
    except OSError:
        return None


def _waited(statistic: str) -> float:
    words = statistic.split()
    return int(words[1]) / 1e9 if len(words) > 1 else 0.0  # a kernel without this statistic does not know


def _text(path: str) -> str:
    try:
        with open(
            path
        ) as file:  # Path.read_text takes twice as long, and this is asked a hundred times for each submission
            return file.read()
    except OSError:
        return ""
