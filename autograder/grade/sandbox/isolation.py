"""The levels of isolation: how a host and its submissions are separated from the rest of the machine. Imports only fast modules."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from autograder.errors import SetupError
from autograder.grade.sandbox import namespaces, seccomp
from autograder.grade.sandbox.namespaces import PRIVATE
from autograder.requirements import PACKAGE

IMPORT_ROOT = PACKAGE.parent  # a clone, or site-packages
# The search for fixes would find the answers to most exercises, and the explanations contain those to questions.
HIDDEN_PACKAGES = ("autograder.tape.repair", "autograder.course.explanations")


def package_folders() -> list[str]:
    """Return the folders that contain Python, its packages and this one, except those in /usr; outer folders first."""
    folders = {sys.base_prefix, sys.prefix, *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))}
    folders |= {str(path) for path in (PACKAGE, IMPORT_ROOT / "assets") if path.exists()}
    outside = [path for path in sorted(folders, key=len) if not path.startswith("/usr/") and os.path.exists(path)]
    return [path for path in outside if not any(path.startswith(f"{parent}/") for parent in outside)]


def hidden_folders() -> list[str]:
    """Return every folder from which a submission could import a hidden package; there may be both a clone and a wheel."""
    roots = [str(IMPORT_ROOT), *(sysconfig.get_path(name) for name in ("purelib", "platlib")), *sys.path]
    visible = tuple(f"{folder}/" for folder in ("/usr", *package_folders()))
    links: dict[str, str] = {}
    for package in HIDDEN_PACKAGES:
        for folder in find_copies(package, roots):
            if folder.startswith(visible):
                links.setdefault(os.path.realpath(folder), folder)  # lib64 is often a link to lib
    return list(links.values())


def find_copies(package: str, roots: Iterable[str]) -> list[str]:
    """Return the folders of a package in each of the roots."""
    folders = (os.path.join(root, *package.split(".")) for root in roots)
    return [folder for folder in folders if os.path.isdir(folder)]


class IsolationError(SetupError):
    """The machine does not reach the required level, so nothing is graded; the message suggests a solution."""


class IsolationLevel:
    """The way in which a server, and the submissions that it runs, are separated from the rest of the machine."""

    name: ClassVar[str]  # the name in `--isolation`, in the gradebook and in reports
    defends: ClassVar[str]  # a sentence for teachers on what a submission cannot do, and what it can
    # whether each submission gets its own namespaces inside the server's. If the kernel does not allow that, each gets
    # its own server.
    separates_submissions: ClassVar[bool]
    # whether submissions run under a dedicated user id instead of in namespaces. The kernel then counts the processes
    # of that user, and the filter for system calls denies the network.
    has_own_user: ClassVar[bool] = False

    @functools.cached_property
    def obstacle(self) -> str:
        """The reason why this machine does not reach the level, and what to do; "" if it does. Tried once per process."""
        if sys.platform != "linux":
            return "the grader runs on Linux only; use a Linux machine or a container"
        return self.probe() or seccomp.obstacle()

    def probe(self) -> str:
        """Try the level on this Linux machine and return the text for `obstacle`."""
        return ""

    def command(self, host: list[str]) -> list[str]:
        """Return the command line that starts a host at this level, given the one that starts it without isolation."""
        return host

    def become(self, role: str) -> None:
        """Change the user id of a server's process, and of all workers that it forks, to that of its role ("server" or "judge server")."""

    def environment(self) -> dict[str, str]:
        """Return all environment variables of the host; none are copied from the teacher's, so no token can leak through them."""
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


PROC = Path("/proc")

# File below /proc/sys, the value that denies namespaces, and the command for the machine, or for the node of a pod.
SWITCHES = (
    ("user/max_user_namespaces", "0", "`sysctl user.max_user_namespaces=15000`"),
    ("kernel/unprivileged_userns_clone", "0", "`sysctl kernel.unprivileged_userns_clone=1`"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or an AppArmor profile for bwrap",
    ),
)


def namespace_obstacles(proc: Path = PROC) -> Iterator[str]:
    """Yield a sentence for each fact that may forbid namespaces here."""
    # A filter of system calls (seccomp) denies namespaces unless it is disabled; containers have one.
    if re.search(r"^Seccomp:\s*2$", file_text(proc / "self/status"), re.M):
        lifted = "`seccompProfile: {type: Unconfined}` in a pod, `--security-opt seccomp=unconfined` for Docker"
        yield f"a filter of system calls is set; {lifted}"
    # Docker's and containerd's AppArmor profiles deny mounts even in new namespaces.
    profile = file_text(proc / "self/attr/current").strip("\0 \n")
    if profile.endswith("(enforce)"):
        lifted = "`appArmorProfile: {type: Unconfined}` in a pod, `--security-opt apparmor=unconfined` for Docker"
        yield f"the AppArmor profile is {profile.removesuffix('(enforce)').strip()!r}; {lifted}"
    # With only a masked /proc visible, the kernel denies a new one (Linux, `mount_too_revealing`). Any machine with
    # systemd has the mount below /proc/sys/fs/binfmt_misc.
    points = re.findall(r"^(?:\S+ ){4}(/proc/(?!sys/fs/binfmt_misc)\S+) ", file_text(proc / "self/mountinfo"), re.M)
    if points:
        lifted = (
            "`procMount: Unmasked` with `hostUsers: false` in a pod, `--security-opt systempaths=unconfined` for Docker"
        )
        yield f"parts of /proc are masked ({points[0]}, for instance); {lifted}"
    for file, value, command in SWITCHES:
        if file_text(proc / "sys" / file).strip() == value:
            yield f"{file.replace('/', '.')} is {value}; on the machine itself, or the pod's node: {command}"


def file_text(path: str | Path) -> str:
    """Return the text of a file of the kernel; "" if it cannot be read."""
    # Path.read_text takes twice as long, and a submission needs this a hundred times.
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
    return ""


SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32")
SETTINGS = tuple(
    f"/etc/{name}" for name in ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "fonts", "alternatives")
)
HOME = "/tmp/home"


class BubblewrapLevel(IsolationLevel):
    """No network, no files of the class, and a read-only system; each submission has its own namespaces and folders."""

    name = "bubblewrap"
    defends = (
        "a submission has no network, sees no file of the class and no other process, and writes only to folders that are "
        "deleted after it"
    )
    separates_submissions = True

    def probe(self) -> str:
        """Run Python inside bubblewrap."""
        program = shutil.which("bwrap")
        if program is None:
            return "bubblewrap is missing; install it: `sudo apt install bubblewrap`"
        tried = subprocess.run([*_bubblewrap(program), "--", sys.executable, "-c", ""], capture_output=True, text=True)
        if tried.returncode:
            reason = (tried.stderr.strip().splitlines() or ["no reason given"])[0]
            causes = "".join(f". {cause}" for cause in namespace_obstacles())
            return (
                f"bubblewrap is not allowed to work here ({reason}); allow user namespaces, or grade elsewhere{causes}"
            )
        return ""

    def command(self, host: list[str]) -> list[str]:
        """Return the host's command line inside bubblewrap."""
        return [*_bubblewrap(shutil.which("bwrap") or "bwrap"), "--", *host]

    def environment(self) -> dict[str, str]:
        """Return the environment with a home folder inside the sandbox."""
        return super().environment() | {"HOME": HOME, "IPYTHONDIR": f"{HOME}/.ipython"}


def _bubblewrap(program: str) -> list[str]:
    """Return bubblewrap's options: no network, only /tmp writable, and only the system and this package visible.

    Source notebooks, the gradebook and other submissions are not mounted, so they have no path.
    """
    options = [program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    options += ["--uid", "1000", "--gid", "1000", "--hostname", "grading"]
    for path in (*SYSTEM, *SETTINGS):
        if os.path.islink(path) and path in SYSTEM:
            options += ["--symlink", os.readlink(path), path]
        else:
            options += ["--ro-bind-try", path, path]
    # Before the packages, because a clone may be in /tmp.
    options += ["--tmpfs", "/tmp", "--dir", HOME, "--dir", PRIVATE]
    for path in package_folders():
        options += ["--ro-bind", path, path]
    for path in hidden_folders():
        options += ["--tmpfs", path]
    options += ["--proc", "/proc", "--dev", "/dev", "--chdir", "/tmp"]
    return [*options, "--remount-ro", "/dev", "--remount-ro", "/"]


# Systems do not assign these numbers automatically: Debian reserves 60000 to 64999 for its packages, and lists the assigned ones
# (Debian Policy 9.2.2).
SUBMISSION_ID, JUDGE_ID = 64_200, 64_201
IDS = {"server": SUBMISSION_ID, "judge server": JUDGE_ID}


class SecondUserLevel(IsolationLevel):
    """The limits of the level "process"; the grader's processes, and files that others may not read, cannot be accessed."""

    name = "user"
    defends = (
        "a submission has limits, no network and a user id of its own, so it reads and changes only what everybody may; it sees "
        "other submissions that are graded at the same time"
    )
    separates_submissions = False
    has_own_user = True

    def probe(self) -> str:
        """Run Python as the second user, and import a module from outside the standard library."""
        if os.geteuid() != 0:
            return "only root can give a submission a user id of its own; grade as root in a container"
        trial = [sys.executable, "-P", "-c", "import json, msgspec, autograder.errors"]
        advice = f"a second user cannot run {sys.executable} ({{}}); install Python where everybody may read it"
        user: dict[str, Any] = {"user": SUBMISSION_ID, "group": SUBMISSION_ID, "extra_groups": []}
        try:
            tried = subprocess.run(trial, env=self.environment(), cwd="/", capture_output=True, text=True, **user)
        except OSError as error:  # a folder above Python's is not readable by other users
            return advice.format(error.strerror)
        if tried.returncode:
            reason = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
            return advice.format(reason)
        return ""

    def become(self, role: str) -> None:
        """Change this process to the user id of its role, permanently."""
        namespaces.become_user(IDS[role])


class ProcessLevel(IsolationLevel):
    """Limits on time, memory, files and processes; the teacher's files are not hidden."""

    name = "process"
    defends = (
        "a submission's time, memory, files and processes are limited, but it can read your files and use the network, so "
        "use it only for people you trust"
    )
    separates_submissions = False


# by name; the strongest first
LEVELS: dict[str, IsolationLevel] = {
    level.name: level for level in (BubblewrapLevel(), SecondUserLevel(), ProcessLevel())
}
STRONGEST = next(iter(LEVELS))


def known_level(name: str) -> IsolationLevel:
    """Return the level of this name, whether or not this machine reaches it. Raise IsolationError if it does not exist."""
    if name not in LEVELS:
        raise IsolationError(f"there is no isolation level {name!r}. Choose one of: {', '.join(LEVELS)}")
    return LEVELS[name]


def require_level(name: str) -> IsolationLevel:
    """Return the level of this name. Raise IsolationError if it does not exist, or this machine does not reach it."""
    level = known_level(name)
    if level.obstacle:
        weaker = next((level for level in LEVELS.values() if not level.obstacle), None)
        raise IsolationError(
            f"this machine does not reach the isolation level {name!r}, so nothing was graded: {level.obstacle}."
            + (f" `--isolation {weaker.name}` works here; {weaker.defends}" if weaker else "")
        )
    return level
