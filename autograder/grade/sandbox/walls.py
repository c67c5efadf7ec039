"""Levels of isolation: what this machine offers, and the command that starts the warm server behind its wall."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from autograder.errors import SetupError
from autograder.grade.sandbox import namespaces

Level = Literal["bubblewrap", "process"]
LEVELS: tuple[Level, ...] = get_args(Level)  # strongest first
ROOT = Path(__file__).resolve().parents[3]
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32")
SETTINGS = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/fonts",
    "/etc/alternatives",
)
HOME = "/tmp/home"


class IsolationError(SetupError):
    """The machine does not reach the level that was asked for, so no marks are given; the message says how to raise it."""


class Reached(NamedTuple):
    """The strongest level of this machine, and why it is no stronger ("" at the strongest)."""

    level: Level
    reason: str


@functools.cache
def probe() -> Reached:
    """Returns the level that this machine reaches, found by trying it."""
    if sys.platform != "linux":
        return Reached("process", "namespaces exist on Linux only; grade in a Linux machine or container")
    program = shutil.which("bwrap")
    if program is None:
        return Reached("process", "bubblewrap is missing; install it: `sudo apt install bubblewrap`")
    tried = subprocess.run([*_wall(program), "--", sys.executable, "-c", ""], capture_output=True, text=True)
    if tried.returncode:
        words = (tried.stderr.strip().splitlines() or ["no reason given"])[0]
        return Reached("process", f"bubblewrap may not work here ({words}); allow user namespaces, or grade elsewhere")
    return Reached("bubblewrap", "")


def require(asked: Level) -> Level:
    """Returns the level to work at: the one asked for.

    Raises:
        IsolationError: the machine does not reach it.
    """
    reached = probe()
    if LEVELS.index(reached.level) > LEVELS.index(asked):
        raise IsolationError(
            f"isolation {asked!r} was asked for and this machine reaches {reached.level!r}, so nothing was graded: "
            f"{reached.reason}. `--isolation process` grades without it; read what that does not defend first"
        )
    return asked


def server_command(level: Level, controls: list[int]) -> list[str]:
    """Returns the command that starts a warm server for each of the descriptors `controls`, which it inherits."""
    # Not `-m`: IPython puts the learner's namespace where `__main__` was.
    server = [
        sys.executable,
        "-P",
        "-c",
        "from autograder.grade.sandbox.server import main; main()",
        ",".join(map(str, controls)),
        level,
    ]
    if level == "process":
        return server
    return [*_wall(shutil.which("bwrap") or "bwrap"), "--", *server]


def server_environment(level: Level) -> dict[str, str]:
    """Returns the server's whole environment: nothing of the teacher's own, so no token can leak from it."""
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
    home = HOME if level == "bubblewrap" else "/nonexistent"
    return threads | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": home,
        "IPYTHONDIR": f"{home}/.ipython" if level == "bubblewrap" else "",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }


def _wall(program: str) -> list[str]:
    """Returns bubblewrap's options: no network, nothing to write but /tmp, and in sight only the system and this package.

    Source notebooks, the gradebook and other submissions are not mounted, so there is no path that leads to them.
    """
    words = [program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    words += ["--uid", "1000", "--gid", "1000", "--hostname", "grading"]
    for path in (*SYSTEM, *SETTINGS):
        if os.path.islink(path) and path in SYSTEM:
            words += ["--symlink", os.readlink(path), path]
        else:
            words += ["--ro-bind-try", path, path]
    words += [
        "--tmpfs",
        "/tmp",
        "--dir",
        HOME,
        "--dir",
        namespaces.PRIVATE,
    ]  # before what may lie in /tmp: a clone, say
    for path in packages():
        words += ["--ro-bind", path, path]
    words += ["--tmpfs", f"{ROOT}/autograder/tape/repair"]  # it would find the answers to most exercises
    words += ["--proc", "/proc", "--dev", "/dev", "--chdir", "/tmp"]
    return [*words, "--remount-ro", "/dev", "--remount-ro", "/"]


def packages() -> list[str]:
    """Returns the folders that hold Python, its packages and this one; outer folders before inner ones."""
    found = {sys.base_prefix, sys.prefix, *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))}
    found |= {str(ROOT / "autograder"), *(str(path) for path in [ROOT / "assets"] if path.exists())}
    outside = [path for path in sorted(found, key=len) if not path.startswith("/usr/") and os.path.exists(path)]
    return [path for path in outside if not any(path.startswith(f"{other}/") for other in outside)]
