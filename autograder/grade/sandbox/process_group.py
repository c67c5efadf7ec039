"""A Linux control group for a server and all its child processes, which limits their number.

Only root, or a user to whom the system has delegated a part of the tree, can create one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from pathlib import Path

TREES = (
    Path("/sys/fs/cgroup/pids"),
    Path("/sys/fs/cgroup"),
)  # of control groups version 1 and version 2
REMOVAL_SECONDS = 2.0
_numbers = itertools.count()


class ProcessGroup:
    """One control group, which is removed when its processes have ended.

    Args:
        folder: its folder in the kernel's file system.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def around(cls, process: int, most: int) -> ProcessGroup | None:
        """Return a new group with this process and its future children; None if it cannot be created."""
        for tree in TREES:
            _remove_forgotten(tree)
            group = cls(tree / f"autograder-{os.getpid()}-{next(_numbers)}")
            try:
                group._folder.mkdir()
                (group._folder / "pids.max").write_text(str(most))
                (group._folder / "cgroup.procs").write_text(str(process))
            except OSError:
                group.remove(0.0)
                continue
            return group
        return None

    def remove(self, patience: float = REMOVAL_SECONDS) -> None:
        """Remove the group after its last process has ended."""
        end = time.monotonic() + patience
        while self._folder.exists():
            with contextlib.suppress(OSError):
                self._folder.rmdir()
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
