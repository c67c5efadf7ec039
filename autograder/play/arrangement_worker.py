"""A separate process that runs arrangements within limits, so that a line cannot stop the notebook's kernel."""

from __future__ import annotations

import io
import multiprocessing
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import torch

from autograder.errors import message_of
from autograder.locale.translations import translated
from autograder.play.arrangement_run import run
from autograder.play.board_scene import board_scene
from autograder.play.cards import Arrangement, PlayProgram
from autograder.tape import ProgramError
from autograder.view.scene.composition import Scene

ONE_RUN, ALL_RUNS = 1.0, 6.0
"""Time limits, in seconds, for one run of an arrangement and for all its runs together."""

MEMORY = 2 << 30
"""Additional memory, in bytes, that the runs may use."""

CAN_FORK = sys.platform == "linux"
"""Whether runs use a fork. Otherwise they are in the kernel itself, and only the time of each is limited."""


class ArrangementWorker:
    """A fork of the kernel that runs the arrangements of one program.

    It ends with the kernel, and is replaced if an arrangement ends it.
    """

    _open: ArrangementWorker | None = None

    def __init__(self, program: PlayProgram, names: dict[str, Any]):
        self.program, self.names = program, names
        self._process: Any = None
        self._connection: Connection | None = None

    def scene(self, arrangement: Arrangement, options: dict[str, Any]) -> Scene:
        """Return the scene of an arrangement's run, or one with the reason why it did not finish."""
        if not CAN_FORK:
            return judged_scene(self.program, arrangement, self.names, options)
        connection = self._connected()
        connection.send_bytes(msgspec.json.encode((arrangement, options)))
        try:
            if connection.poll(ALL_RUNS):
                return msgspec.json.decode(connection.recv_bytes(), type=Scene)
            problem = translated(
                "The run was stopped after {seconds} seconds. Check the lines for an infinite loop.",
                seconds=f"{ALL_RUNS:g}",
            )
        except (EOFError, OSError):
            self._process.join(1)
            problem = translated("The program ended the process that ran it. Undo the last change.")
        self.close()
        return board_scene(self.program, arrangement, None, problem=problem, **options)

    def close(self) -> None:
        """Kill the process; the next arrangement starts a new one."""
        if self._process is not None and self._connection is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
        self._process = self._connection = None

    def _connected(self) -> Connection:
        """Return the connection to the process; start it if necessary, and end another program's process."""
        if self._connection is None or not self._process.is_alive():
            other = ArrangementWorker._open
            if other is not None:
                other.close()
            ArrangementWorker._open = self
            fork = multiprocessing.get_context("fork")
            self._connection, inside = fork.Pipe()
            self._process = fork.Process(target=self._serve, args=(inside, self._connection), daemon=True)
            self._process.start()
            inside.close()
        return self._connection

    def _serve(self, inside: Connection, outside: Connection) -> None:
        """Answer requests in the fork until the kernel closes its end of the connection."""
        outside.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stdout = sys.stderr = io.StringIO()  # the kernel's own streams would write into the notebook
        _limit_memory()
        # The fork does not have the kernel's other threads, and OpenMP would wait for them forever.
        torch.set_num_threads(1)
        with suppress(EOFError, OSError):
            while True:
                arrangement, options = msgspec.json.decode(inside.recv_bytes(), type=tuple[Arrangement, dict[str, Any]])
                inside.send_bytes(msgspec.json.encode(judged_scene(self.program, arrangement, self.names, options)))


def judged_scene(
    program: PlayProgram, arrangement: Arrangement, names: dict[str, Any], options: dict[str, Any]
) -> Scene:
    """Return the scene of an arrangement that runs in this process; `options` are those of `board_scene`."""
    try:
        judged = run(program, arrangement, names, ONE_RUN)
    except ProgramError as error:
        return board_scene(program, arrangement, None, problem=message_of(error), **options)
    return board_scene(program, arrangement, judged.recording, **options)


def _limit_memory() -> None:
    """Limit the memory of this process, so that larger allocations raise MemoryError; without such a limit, only time is limited."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
