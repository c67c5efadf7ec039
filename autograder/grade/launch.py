"""Starts the warm server: a process behind its wall, and the socket that leads to it. Imports nothing that takes time."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import tempfile
from typing import IO, NamedTuple

from autograder.grade.isolation import Level, server_command, server_environment


class Launched(NamedTuple):
    """A server that is on its way: it says on `control` when it is ready; `words` is a file with what it printed.

    The process that grades may be another than the one that launched it; each closes what it holds.
    """

    process: subprocess.Popen[bytes]
    control: socket.socket
    words: IO[bytes]

    def hang_up(self) -> None:
        """Closes the socket and the file of this process; the server ends when nobody holds its socket any more."""
        self.control.close()
        self.words.close()

    def end(self, patience: float = 0.0) -> None:
        """Hangs up, gives the server so many seconds to end by itself, and then ends it."""
        self.hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=patience)
        self.process.kill()
        self.process.wait()


def launch(level: Level) -> Launched:
    """Returns a server that has just been started at this level."""
    control, theirs = socket.socketpair()
    # A file, not a pipe: nobody reads along, so a pipe could fill up and stop the server.
    words = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the server
    process = subprocess.Popen(
        server_command(level, theirs.fileno()),
        pass_fds=[theirs.fileno()],
        env=server_environment(level),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=words,
        stderr=words,
        start_new_session=True,
    )
    theirs.close()
    return Launched(process, control, words)
