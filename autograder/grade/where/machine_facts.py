"""Facts about this machine, and those that must be equal on all machines that grade one class, because a grade may depend on them."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from autograder.requirements import PACKAGE

PACKAGES = ("torch", "nbgrader", "ipython")
WITHOUT_EFFECT = ("classroom", "cli", "course/book", "desk")
"""Folders of this package on which no grade depends."""


@cache
def deciding_versions() -> dict[str, str]:
    """Return the versions on which a grade depends: Python, the grader, and all packages that a submission can import here."""
    return _grading_versions() | {"installed": _installed()}


def _installed() -> str:
    """Return a hash of the names and versions of all installed packages, which are read from the names of their folders."""
    folders = [Path(entry) for entry in sys.path if Path(entry).is_dir()]
    found = {path.name for folder in folders for path in folder.glob("*.*-info")}
    return hashlib.sha256(repr(sorted(found)).encode()).hexdigest()[:12]


def _grading_versions() -> dict[str, str]:
    own = _code_version(file for file in _code() if not _is_without_effect(file))
    packages = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version()} | packages | {"grader": own}


@cache
def handshake_versions() -> dict[str, str]:
    """Return the versions that another machine must have as well: Python, the grading packages, and the exact code of this package."""
    return {"autograder": _code_version(_code())} | _grading_versions()


def _code() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def _is_without_effect(file: Path) -> bool:
    return file.relative_to(PACKAGE).as_posix().startswith(tuple(f"{folder}/" for folder in WITHOUT_EFFECT))


def _code_version(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.relative_to(PACKAGE).as_posix().encode() + b"\0" + file.read_bytes())
    return f"{importlib.metadata.version('autograd-er')} ({digest.hexdigest()[:12]})"


def difference(theirs: dict[str, str]) -> str:
    """Return the differences between another machine's `handshake_versions` and ours; "" if they are equal."""
    ours = handshake_versions()
    names = [name for name in ours if theirs.get(name) != ours[name]]
    return "; ".join(f"{name} {theirs.get(name, 'missing')} there, {ours[name]} here" for name in names)


@cache
def machine_kind() -> str:
    """Return the processor's name and number and the memory, such as "x86_64, AMD EPYC 7B13, 16 processors, 64 GiB"."""
    try:
        model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.M)
    except OSError:
        model = None
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    processor = f", {model[1]}" if model else ""
    return f"{platform.machine()}{processor}, {os.cpu_count()} processors, {memory:.0f} GiB"
