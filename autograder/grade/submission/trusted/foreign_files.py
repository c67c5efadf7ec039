"""Which files a test may touch: an answer may name any, and the test has the teacher's rights.

`np.loadtxt(save())` would read the teacher's files into a student's feedback, `os.remove(name)` would delete them. So what a
test opens, changes or lists lies in its own folder, or is a part of the system that everybody may read and nobody here writes.
"""

from __future__ import annotations

import os
import stat
import sys
import sysconfig
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from autograder.installation.requirements import PACKAGE

EVENTS: dict[str, tuple[int, ...]] = {
    "open": (0,),
    "os.listdir": (0,),
    "os.scandir": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.mkdir": (0,),
    "os.link": (0, 1),
    "os.symlink": (1,),
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.truncate": (0,),
    "os.utime": (0,),
    "os.setxattr": (0,),
    "os.removexattr": (0,),
    "sqlite3.connect": (0,),
    "socket.bind": (1,),  # a path, for a socket in a file
}
"""Python's audit events of files (3.11), and which of their arguments are paths."""
READING = ("os.listdir", "os.scandir")
WRITING_MODES = frozenset("wax+")
WRITING_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc", "/proc", "/sys")
DEVICES = (os.devnull, "/dev/urandom", "/dev/random", "/dev/zero")
SECRETS = ("environ", "mem", "cmdline")
"""Files in /proc with which a process could be read, or changed."""
teachers_folders: list[str] = []
"""Where the teacher's modules lie in this process, and what lies beside them, as real paths (`test_folder`)."""
SETTINGS = (".matplotlib", ".config/matplotlib", ".cache/matplotlib")
"""What matplotlib reads and writes in the home folder when it is imported."""


def touches_others(event: str, details: tuple[Any, ...], own: Path) -> str:
    """Returns the path that an audit event of files has outside of a test's own folder; "" where it has none.

    Args:
        event: one of EVENTS.
        details: its arguments.
        own: the test's folder; what lies below it may be read and written.
    """
    writes = event not in READING and not (event == "open" and _only_reads(details[1], details[2]))
    paths = [details[position] for position in EVENTS[event]]
    return next((found for path in paths if (found := _outside(path, writes, own))), "")


def _only_reads(mode: str | None, flags: int) -> bool:
    return not (WRITING_MODES & set(mode or "") or flags & WRITING_FLAGS)


def _outside(path: Any, writes: bool, own: Path) -> str:
    """Returns the path if a test may not touch it. A number stands for a file that is open already."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return ""
    text = os.fsdecode(path)
    if text == ":memory:":
        return ""
    real = os.path.realpath(unquote(urlsplit(text).path) if text.startswith("file:") else text)  # as SQLite reads it
    if _is_below(real, (str(own), *_settings())) or real in DEVICES:
        return ""
    return "" if not writes and (_is_public(real) or not os.path.lexists(real)) else real


def _is_public(path: str) -> bool:
    """Returns whether everybody may read a file of the system's, or it is one of Python's own or of the teacher's modules."""
    if _is_below(path, (*_PYTHON, *teachers_folders)):
        return True
    if not _is_below(path, SYSTEM) or (path.startswith("/proc/") and path.endswith(SECRETS)):
        return False
    try:
        return bool(os.stat(path).st_mode & stat.S_IROTH)
    except OSError:
        return False


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(f"{folder}{os.sep}") for folder in folders)


def _settings() -> tuple[str, ...]:
    return tuple(os.path.join(os.path.expanduser("~"), name) for name in SETTINGS)


_PYTHON = tuple(
    os.path.realpath(folder)
    for folder in {sys.base_prefix, sys.prefix, str(PACKAGE)}
    | {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
