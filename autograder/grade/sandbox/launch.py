"""Starts warm servers: a process behind its wall, and a socket to each fork of it. Imports nothing that takes time."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
from typing import IO, NamedTuple

from autograder.grade.sandbox.walls import Level, server_command, server_environment


class Launched(NamedTuple):
    """A server that is on its way, and how to reach it.

    The process that grades may be another than the one that launched it; each closes what it holds.

    Attributes:
        process: what was started; it ends when all of its servers have ended.
        control: leads to one server, which says there when it is ready.
        words: a file with what they printed.
        shared: whether other servers live behind the same wall.
    """

    process: subprocess.Popen[bytes]
    control: socket.socket
    words: IO[bytes]
    shared: bool

    def hang_up(self) -> None:
        """Closes this process's end of the socket; the server ends when nobody holds one any more."""
        self.control.close()

    def end(self, patience: float = 0.0) -> None:
        """Hangs up, gives the process so many seconds to end by itself, and then ends it; it must be this process's child."""
        self.hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=patience)
        self.process.kill()
        self.process.wait()


def lanes(jobs: int) -> int:
    """Returns how many submissions to grade at once: so many, or for 0 one for each core that this process may use."""
    return jobs or len(os.sched_getaffinity(0))


def launch(level: Level, count: int = 1) -> list[Launched]:
    """Returns so many servers, forks of one process that has just been started at this level: PyTorch is loaded once."""
    pairs = [socket.socketpair() for _ in range(count)]
    for ours, _ in pairs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # the kernel says who is at the other end
    # A file, not a pipe: nobody reads along, so a pipe could fill up and stop the server.
    words = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the server
    descriptors = [theirs.fileno() for _, theirs in pairs]
    process = subprocess.Popen(
        server_command(level, descriptors),
        pass_fds=descriptors,
        env=server_environment(level),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=words,
        stderr=words,
        start_new_session=True,
    )
    for _, theirs in pairs:
        theirs.close()
    return [Launched(process, ours, words, count > 1) for ours, _ in pairs]
