"""The level "bubblewrap": Linux namespaces around the server, and again around each submission in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from autograder.grade.sandbox.isolation.isolation_level import IsolationLevel
from autograder.grade.sandbox.isolation.namespace_obstacles import namespace_obstacles
from autograder.grade.sandbox.isolation.package_folders import hidden_folders, package_folders

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
PRIVATE = "/private"  # where a submission's /tmp is mounted before it is moved into place


class BubblewrapLevel(IsolationLevel):
    """No network, no files of the class, read-only system; each submission has namespaces and folders of its own."""

    name = "bubblewrap"
    defends = (
        "a submission has no network, sees no file of the class and no other process, and writes only to folders that are "
        "deleted after it"
    )
    separates_submissions = True

    def probe(self) -> str:
        """Runs Python inside bubblewrap."""
        if sys.platform != "linux":
            return "namespaces exist on Linux only; grade on a Linux machine or in a container"
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
        """Returns the environment with a home folder inside the sandbox."""
        return super().environment() | {"HOME": HOME, "IPYTHONDIR": f"{HOME}/.ipython"}


def _bubblewrap(program: str) -> list[str]:
    """Returns bubblewrap's options: no network, nothing writable but /tmp, and only the system and this package visible.

    Source notebooks, the gradebook and other submissions are not mounted, so no path leads to them.
    """
    options = [program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    options += ["--uid", "1000", "--gid", "1000", "--hostname", "grading"]
    for path in (*SYSTEM, *SETTINGS):
        if os.path.islink(path) and path in SYSTEM:
            options += ["--symlink", os.readlink(path), path]
        else:
            options += ["--ro-bind-try", path, path]
    options += [
        "--tmpfs",
        "/tmp",
        "--dir",
        HOME,
        "--dir",
        PRIVATE,
    ]  # before packages, which may be in /tmp: a clone, say
    for path in package_folders():
        options += ["--ro-bind", path, path]
    for path in hidden_folders():
        options += ["--tmpfs", path]
    options += ["--proc", "/proc", "--dev", "/dev", "--chdir", "/tmp"]
    return [*options, "--remount-ro", "/dev", "--remount-ro", "/"]
