"""What every level of isolation says about itself."""

from __future__ import annotations

import functools
import os
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from autograder.errors import SetupError
from autograder.grade.sandbox import seccomp
from autograder.grade.sandbox.isolation.package_folders import IMPORT_ROOT


class IsolationError(SetupError):
    """The machine does not reach the level that was asked for, so nothing is graded; the message says what to do."""


class IsolationLevel(ABC):
    """How a server, and the submissions that it runs, are separated from the rest of the machine.

    Attributes:
        name: as in `--isolation`, in the gradebook and in reports.
        defends: one sentence for teachers: what a submission cannot do, and what it still can.
        separates_submissions: whether each submission gets namespaces of its own inside the server's. Where the kernel
            does not allow that, each gets a server of its own.
        has_own_user: whether submissions run as a user who has nothing else, instead of in namespaces: the kernel then counts
            that user's processes, and the filter for system calls keeps the network away.
    """

    name: ClassVar[str]
    defends: ClassVar[str]
    separates_submissions: ClassVar[bool]
    has_own_user: ClassVar[bool] = False

    @functools.cached_property
    def obstacle(self) -> str:
        """Why this machine does not reach the level, and what to do about it; "" if it does. Tried once per process."""
        return self.probe() or seccomp.obstacle()

    @abstractmethod
    def probe(self) -> str:
        """Tries the level on this machine and returns what `obstacle` says."""

    @abstractmethod
    def command(self, host: list[str]) -> list[str]:
        """Return the command line that starts a host at this level, given the one that starts it without isolation."""

    def become(self, role: str) -> None:  # noqa: B027 - most levels change nothing
        """Gives a server's process, and so all workers that it forks, the user id of its role ("server" or "judge server")."""

    def environment(self) -> dict[str, str]:
        """Return all environment variables of the host. None is the teacher's own, so no token can leak through them."""
        threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
        return threads | {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]),
            "HOME": "/nonexistent",
            "IPYTHONDIR": "",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(IMPORT_ROOT),
            "PYTHONNOUSERSITE": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        }
