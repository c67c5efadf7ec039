"""Start of hosts in a control group. Imports only fast modules, so that a host can start before the process that needs it is ready.

Only root, or a user to whom the system has delegated a part of the tree, can create one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from autograder.grade.sandbox.isolation import IsolationLevel
from autograder.grade.wire.channel import ChannelError, send
from autograder.grade.wire.messages import Fork, Role

TREES = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))  # of control groups version 1 and version 2
REMOVAL_SECONDS = 2.0
_numbers = itertools.count()


def new_control_group(process: int, most: int) -> Path | None:
    """Return the folder of a new group with this process and its future children; None if it cannot be created."""
    for tree in TREES:
        _remove_forgotten(tree)
        group = tree / f"autograder-{os.getpid()}-{next(_numbers)}"
        try:
            group.mkdir()
            (group / "pids.max").write_text(str(most))
            (group / "cgroup.procs").write_text(str(process))
        except OSError:
            remove_control_group(group, 0.0)
            continue
        return group
    return None


def remove_control_group(group: Path, patience: float = REMOVAL_SECONDS) -> None:
    """Remove a group after its last process has ended."""
    end = time.monotonic() + patience
    while group.exists():
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        if time.monotonic() > end:
            return
        time.sleep(0.02)


def _remove_forgotten(tree: Path) -> None:
    """Remove the empty groups of graders that were killed."""
    for folder in tree.glob("autograder-*-*"):
        if not Path("/proc", folder.name.split("-")[1]).exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


CLOSE_SECONDS = 5.0


class HostProcess:
    """A host at an isolation level. It is started by the first `fork`, or earlier by `start`."""

    def __init__(self, level: IsolationLevel) -> None:
        self.level = level
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the host if it is not running, without waiting until it is ready."""
        if self._process is not None:
            return
        # A file, not a pipe: the pipe is not read while the host runs, so it could fill up and block the host.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the host
        self._control, theirs = socket.socketpair()
        environment = self.level.environment()
        self._folder: str | None = None
        if not self.level.separates_submissions:
            self._folder = tempfile.mkdtemp(prefix="autograder-")
            os.chmod(self._folder, 0o1777)  # it contains folders of other user ids
            environment["TMPDIR"] = self._folder
        # Not `-m`: IPython replaces `__main__` with the submission's namespace. The imports would collect garbage 400 times.
        start = "import gc; gc.disable(); from autograder.grade.sandbox.host import main; main()"
        host = [sys.executable, "-P", "-c", start]
        self._process = subprocess.Popen(
            self.level.command([*host, str(theirs.fileno()), self.level.name]),
            pass_fds=[theirs.fileno()],
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        theirs.close()

    def fork(self, role: Role, modules: tuple[str, ...] = ()) -> socket.socket:
        """Return the control socket of a new process of the host; the process answers when the host has imported the modules."""
        self.start()
        ours, theirs = socket.socketpair()
        # If the host has ended, the use of the socket will fail.
        with theirs, contextlib.suppress(OSError, ChannelError):
            socket.send_fds(self._control, [b"f"], [theirs.fileno()])
            send(self._control, Fork(role, modules))
        return ours

    @property
    def last_line(self) -> str:
        """The last line that the host printed, which gives the reason if it ended."""
        self._log.seek(0)
        lines = self._log.read()[-2000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it gave no reason"

    def close(self, patience: float = 0.0) -> None:
        """Kill the host and all its processes, and delete the folders of its submissions."""
        if self._process is None:
            return
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=patience)
        self._process.kill()
        self._process.wait()
        self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def parallel_jobs(jobs: int) -> int:
    """Return the number of submissions to grade at the same time: `jobs`, or for 0 the number of usable cores."""
    return jobs or len(os.sched_getaffinity(0))


def processor_shares(count: int) -> list[frozenset[int]]:
    """Return the processors for each of `count` submissions that are graded at the same time: an equal share, at least one."""
    processors = sorted(os.sched_getaffinity(0))
    return [frozenset(processors[place::count] or [processors[place % len(processors)]]) for place in range(count)]
