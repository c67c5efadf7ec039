"""The level "user": a second user id, for a container in which the grader is root and namespaces are refused."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from autograder.grade.sandbox.isolation.isolation_level import IsolationLevel

# No system gives this number to anybody by itself: Debian keeps 60000 to 64999 for its packages, and names those that it has given
# away (Debian Policy 9.2.2).
SUBMISSION_ID = 64_200


class SecondUserLevel(IsolationLevel):
    """Limits as at the level "process"; files that others may not read, and processes of the grader's, are out of reach."""

    name = "user"
    defends = (
        "a submission has limits, no network and a user id of its own, so it reads and changes only what everybody may; it sees "
        "other submissions that are graded at the same time"
    )
    separates_submissions = False
    has_own_user = True

    def probe(self) -> str:
        """Runs Python as the second user, which imports something that lies outside the standard library."""
        if sys.platform != "linux":
            return "the grader runs on Linux only; use a Linux machine or a container"
        if os.geteuid() != 0:
            return "only root can give a submission a user id of its own; grade as root in a container"
        if shutil.which("setpriv") is None:
            return "setpriv is missing; install it: `apt-get install util-linux`"
        trial = self.command([sys.executable, "-P", "-c", "import json, msgspec, autograder.errors"])
        tried = subprocess.run(trial, env=self.environment(), cwd="/", capture_output=True, text=True)
        if tried.returncode:
            reason = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
            return f"a second user cannot run {sys.executable} ({reason}); install Python where everybody may read it"
        return ""

    def command(self, server: list[str]) -> list[str]:
        """Returns the server's command line under the second user id, without a way back."""
        ids = ["--reuid", str(SUBMISSION_ID), "--regid", str(SUBMISSION_ID), "--clear-groups"]
        return ["setpriv", *ids, "--no-new-privs", "--bounding-set=-all", "--", *server]

    @contextlib.contextmanager
    def private_folder(self) -> Iterator[str]:
        """Yields a temporary folder of the second user's, which is deleted after the block."""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            os.chown(folder, SUBMISSION_ID, SUBMISSION_ID)
            yield f"{folder}/home/work"
