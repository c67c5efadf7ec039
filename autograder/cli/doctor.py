"""`doctor`: report the installed software that the course uses, and how to install the rest."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from autograder.grade.sandbox.isolation import IMPORT_ROOT, LEVELS, STRONGEST
from autograder.grade.sandbox.launch import new_control_group, remove_control_group
from autograder.requirements import CLONE, install_command, torch_advice

# Package -> the extra that installs it; every installation includes torch.
PACKAGES = {"jupyterlab": "course", "nbgrader": "course", "ipywidgets": "course", "matplotlib": "course"}

GENEROUS = 10_000  # number of processes that is never reached

# A trial exits with status 0 if this process may create namespaces and then give up all privileges.
TRIALS = {
    "system calls": """
from autograder.grade.sandbox import namespaces, seccomp
instructions = seccomp.compile_filter()
namespaces.drop_capabilities()
seccomp.set_filter(instructions)
""",
    "namespaces": """
import os
from autograder.grade.sandbox import namespaces, seccomp
owner = os.getuid(), os.getgid()
if namespaces.fork_into_own_namespaces(seccomp.call_number("clone")) == 0:
    namespaces.set_up_own_namespaces(*owner)
    os._exit(0)
os._exit(os.wait()[1] != 0)
""",
    "keyring": """
from autograder.grade.sandbox import namespaces, seccomp
namespaces.join_empty_keyring(seccomp.call_number("keyctl"))
""",
}
FOUND = {
    "system calls": "filtered",
    "namespaces": "a separate one for each submission",
    "keyring": "a separate one for each submission",
}
ADVICE = {
    "system calls": "nothing is graded without it",
    "namespaces": "allow user namespaces, or grade in a virtual machine; without them there is only the level 'process'",
    "keyring": "nothing is graded if a submission could read your keys",
}


@dataclass(frozen=True)
class Finding:
    """One line of the report; `advice` describes how to install a missing part, and is "" otherwise."""

    what: str
    found: str
    advice: str = ""


def examine() -> list[Finding]:
    """Return the findings on this machine."""
    python = Finding("Python", platform.python_version())
    packages = [_package(name, install_command(extra)) for name, extra in PACKAGES.items()]
    return [python, _torch(), *packages, _browser(), _isolation(), *_layers()]


def _torch() -> Finding:
    advice = torch_advice()
    return replace(_package("torch", "pip install torch"), advice=advice and f"autograder needs {advice}")


def _package(name: str, command: str) -> Finding:
    try:
        return Finding(name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        by_clone = "run `python3 -m autograder lab` from the clone; it installs what is missing"
        return Finding(name, "missing", by_clone if CLONE else f"to open the lessons: `{command}`")


def _browser() -> Finding:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    advice = "only the browser tests need it: `sudo apt install chromium`"
    return Finding("Chromium", program or "missing", "" if program else advice)


def _isolation() -> Finding:
    reached = next((level.name for level in LEVELS.values() if not level.obstacle), "none")
    obstacle = LEVELS[STRONGEST].obstacle
    return Finding("isolation", reached, obstacle and f"to grade at level {STRONGEST!r}: {obstacle}")


def _layers() -> list[Finding]:
    """Return the findings on every isolation layer, each tried now; an empty list on other systems than Linux."""
    if sys.platform != "linux":
        return []
    return [*(_tried(what) for what in TRIALS), _processes(), _memory(), _waiting()]


def _tried(what: str) -> Finding:
    done = subprocess.run([sys.executable, "-c", TRIALS[what]], cwd=IMPORT_ROOT, capture_output=True, text=True)
    if done.returncode == 0:
        return Finding(what, FOUND[what])
    reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    return Finding(what, "refused", f"{reason.partition(': ')[2] or reason}; {ADVICE[what]}")


def _processes() -> Finding:
    """Check how the number of processes is limited.

    The kernel limits root's processes by a control group, and other users' by a limit of each user namespace (Linux
    5.14).
    """
    if os.getuid() != 0:
        return Finding("processes", "limited for each submission")
    with subprocess.Popen(["sleep", "5"]) as trial:
        group = new_control_group(trial.pid, GENEROUS)
        trial.kill()
    if group is None:
        advice = (
            "a submission may start thousands before it is ended; grade as an ordinary user, or allow control groups"
        )
        return Finding("processes", "counted ten times a second", advice)
    remove_control_group(group)
    return Finding("processes", "limited for each submission, by a control group")


def _memory() -> Finding:
    """Check how memory is limited: it is measured from outside, ten times a second, by files in /proc."""
    memory = Path("/proc/self/smaps_rollup")
    if os.access(memory, os.R_OK) and "Pss_Anon" in memory.read_text():
        return Finding("memory", "all processes counted")
    advice = "a submission of many processes may use more memory than its limit; Linux 5.4 and later count it"
    return Finding("memory", "limited for each process", advice)


def _waiting() -> Finding:
    if Path("/proc/self/schedstat").exists():
        return Finding("processors", "waiting for one is measured")
    return Finding(
        "processors",
        "unknown",
        "on a busy machine, grade with fewer --jobs: waiting time counts towards the time limit",
    )
