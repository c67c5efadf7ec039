"""What this machine gives to the walls around a submission, each part tried now: for `doctor`. Works on every system."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from autograder.grade.sandbox.isolation.package_folders import IMPORT_ROOT
from autograder.grade.sandbox.process_group import ProcessGroup

GENEROUS = 10_000  # processes: a limit that nobody reaches

# Ends with status 0 if this process may make namespaces of its own and then give up everything.
TRIALS = {
    "system calls": """
from autograder.grade.sandbox import namespaces, seccomp
instructions = seccomp.compile_filter()
namespaces.give_up_privileges()
seccomp.set_filter(instructions)
""",
    "namespaces": """
from autograder.grade.sandbox import namespaces
namespaces.enter_own_namespaces()
""",
    "keyring": """
from autograder.grade.sandbox import namespaces, seccomp
namespaces.leave_keyrings(seccomp.call_number("keyctl"))
""",
}
FOUND = {
    "system calls": "filtered",
    "namespaces": "of its own for each submission",
    "keyring": "of its own for each submission",
}
ADVICE = {
    "system calls": "nothing is graded without it",
    "namespaces": "allow user namespaces, or grade in a virtual machine; without them there is only the level 'process'",
    "keyring": "nothing is graded where a submission would have your keys",
}


class Wall(NamedTuple):
    """One part of the isolation, what this machine gives to it, and what is weaker; `advice` is empty where nothing is."""

    what: str
    found: str
    advice: str = ""


def walls() -> list[Wall]:
    """Returns every part, tried now; none on a system without these walls."""
    if sys.platform != "linux":
        return []
    return [*(_tried(what) for what in TRIALS), _processes(), _memory(), _waiting()]


def _tried(what: str) -> Wall:
    done = subprocess.run([sys.executable, "-c", TRIALS[what]], cwd=IMPORT_ROOT, capture_output=True, text=True)
    if done.returncode == 0:
        return Wall(what, FOUND[what])
    reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    return Wall(what, "refused", f"{reason.partition(': ')[2] or reason}; {ADVICE[what]}")


def _processes() -> Wall:
    """The kernel refuses too many: root's by a control group, others' by a limit of each user namespace (Linux 5.14)."""
    if os.getuid() != 0:
        return Wall("processes", "limited for each submission")
    with subprocess.Popen(["sleep", "5"]) as trial:
        group = ProcessGroup.around(trial.pid, GENEROUS)
        trial.kill()
    if group is None:
        advice = (
            "a submission may start thousands before it is ended; grade as an ordinary user, or allow control groups"
        )
        return Wall("processes", "counted ten times a second", advice)
    group.remove()
    return Wall("processes", "limited for each submission, by a control group")


def _memory() -> Wall:
    """Memory is counted from outside, ten times a second; what that takes stands in /proc."""
    found = Path("/proc/self/smaps_rollup")
    if os.access(found, os.R_OK) and "Pss_Anon" in found.read_text():
        return Wall("memory", "all processes counted")
    advice = "a submission of many processes may hold more than its limit; Linux 5.4 and later count it"
    return Wall("memory", "limited for each process", advice)


def _waiting() -> Wall:
    if Path("/proc/self/schedstat").exists():
        return Wall("processors", "waiting for one is measured")
    return Wall(
        "processors", "unknown", "on a busy machine, grade with fewer --jobs: nobody gets more time for waiting"
    )
