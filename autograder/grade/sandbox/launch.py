"""Starts warm servers: a process at an isolation level, and a socket to each fork of it. Imports nothing that takes time."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from typing import IO, NamedTuple

from autograder.grade.sandbox.isolation.isolation_level import IsolationLevel


class ServerProcess(NamedTuple):
    """A server that is starting or running, and how to reach it.

    The process that uses it may be a fork of the one that started it; each of them closes its own copies.

    Attributes:
        process: what was started; it ends when all of its servers have ended.
        control: the socket to one server, which sends a message when it is ready.
        log: a file with what the servers printed.
        is_shared: whether other servers are forks of the same process.
    """

    process: subprocess.Popen[bytes]
    control: socket.socket
    log: IO[bytes]
    is_shared: bool

    def disconnect(self) -> None:
        """Closes this process's end of the socket; the server ends when no process holds one any more."""
        self.control.close()

    def end(self, patience: float = 0.0) -> None:
        """Disconnects, waits up to `patience` seconds for the process to end, and then kills it; only for its parent process."""
        self.disconnect()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=patience)
        self.process.kill()
        self.process.wait()


class ServerPool:
    """Servers for a batch; a context manager. They are started together, once, when the first one is needed or earlier.

    Args:
        level: at which they run.
        count: how many there are.
    """

    def __init__(self, level: IsolationLevel, count: int) -> None:
        self.level, self._count = level, count
        self._started: list[ServerProcess] | None = None
        self._free: list[ServerProcess] = []

    def __enter__(self) -> ServerPool:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._started or ():
            server.end()

    def start(self) -> None:
        """Starts the servers and does not wait until they are ready."""
        if self._started is None:
            self._started = launch(self.level, self._count)
            self._free = list(self._started)

    def take(self) -> ServerProcess | None:
        """Returns a server that nobody uses yet; None if there is none left."""
        self.start()
        return self._free.pop(0) if self._free else None

    def disconnect(self) -> None:
        """Closes this process's copies of the sockets to the servers that nobody uses yet: after a fork."""
        for server in self._free:
            server.disconnect()


def parallel_jobs(jobs: int) -> int:
    """Returns how many submissions to grade at once: `jobs`, or for 0 one for each core that this process may use."""
    return jobs or len(os.sched_getaffinity(0))


def processor_shares(count: int) -> list[frozenset[int]]:
    """Returns which processors each of `count` submissions that are graded at once may use: an equal share, at least one."""
    processors = sorted(os.sched_getaffinity(0))
    return [frozenset(processors[place::count] or [processors[place % len(processors)]]) for place in range(count)]


def launch(level: IsolationLevel, count: int = 1) -> list[ServerProcess]:
    """Starts one process, which loads PyTorch once and forks into `count` servers; returns without waiting for it."""
    pairs = [socket.socketpair() for _ in range(count)]
    for ours, _ in pairs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # the kernel says who is at the other end
    # A file, not a pipe: nobody reads while it runs, so a pipe could fill up and block the server.
    log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the server
    descriptors = [theirs.fileno() for _, theirs in pairs]
    process = subprocess.Popen(
        level.command(_server_command(level, descriptors)),
        pass_fds=descriptors,
        env=level.environment(),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    for _, theirs in pairs:
        theirs.close()
    return [ServerProcess(process, ours, log, count > 1) for ours, _ in pairs]


def _server_command(level: IsolationLevel, controls: list[int]) -> list[str]:
    """Returns the command line of a warm server for each of the socket descriptors `controls`, which it inherits."""
    # Not `-m`: IPython puts the learner's namespace where `__main__` was.
    start = "from autograder.grade.sandbox.server import main; main()"
    return [sys.executable, "-P", "-c", start, ",".join(map(str, controls)), level.name]
