"""The level "user": a second user id, for a container in which the grader is root and namespaces are refused."""

from __future__ import annotations

import os
import subprocess
import sys

from autograder.grade.sandbox import namespaces
from autograder.grade.sandbox.isolation.isolation_level import IsolationLevel

# No system gives these numbers to a user by itself: Debian keeps 60000 to 64999 for its packages, and lists those that it has given
# away (Debian Policy 9.2.2).
SUBMISSION_ID, JUDGE_ID = 64_200, 64_201
IDS = {"server": SUBMISSION_ID, "judge server": JUDGE_ID}


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
        trial = [sys.executable, "-P", "-c", "import json, msgspec, autograder.errors"]
        advice = f"a second user cannot run {sys.executable} ({{}}); install Python where everybody may read it"
        try:
            tried = subprocess.run(
                trial,
                env=self.environment(),
                cwd="/",
                capture_output=True,
                text=True,
                user=SUBMISSION_ID,
                group=SUBMISSION_ID,
                extra_groups=[],
            )
        except OSError as error:  # a folder above Python is closed to others
            return advice.format(error.strerror)
        if tried.returncode:
            reason = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
            return advice.format(reason)
        return ""

    def command(self, host: list[str]) -> list[str]:
        """Return the host's own command line: the host is root, and its servers change their user ids."""
        return host

    def become(self, role: str) -> None:
        """Gives this process the user id of its role, without a way back."""
        namespaces.become_user(IDS[role])
