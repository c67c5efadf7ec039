"""A control group of the kernel's that holds a server and all that it starts, and refuses more than so many processes.

Only root, and whom a system gives a part of the tree, can make one; where it cannot be made there is none.
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
)  # of the first version of control groups, and of the second
REMOVAL_SECONDS = 2.0
_numbers = itertools.count()


class ProcessGroup:
    """One group; removed when its processes have ended.

    Args:
        folder: where the kernel shows it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def around(cls, process: int, most: int) -> ProcessGroup | None:
        """Returns a new group with this process in it, and what it starts from now on; None where none can be made."""
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
        """Removes the group; waits until its last process has ended."""
        end = time.monotonic() + patience
        while self._folder.exists():
            with contextlib.suppress(OSError):
                self._folder.rmdir()
                return
            if time.monotonic() > end:
                return
            time.sleep(0.02)


def _remove_forgotten(tree: Path) -> None:
    """Removes the empty groups of graders that were killed."""
    for folder in tree.glob("autograder-*-*"):
        if not Path("/proc", folder.name.split("-")[1]).exists():
            with contextlib.suppress(OSError):
                folder.rmdir()
