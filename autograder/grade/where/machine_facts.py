"""What this machine is, and what has to be the same on every machine that grades one class, because a grade may depend on it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
from functools import cache
from pathlib import Path

from autograder.installation.requirements import PACKAGE

PACKAGES = ("torch", "nbgrader", "ipython")


@cache
def deciding_versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages that decide a grade."""
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in PACKAGES}


@cache
def handshake_versions() -> dict[str, str]:
    """Returns what another machine's installation has to be like: `deciding_versions`, and this package to the letter."""
    digest = hashlib.sha256()
    for file in sorted(PACKAGE.rglob("*.py")):
        digest.update(file.relative_to(PACKAGE).as_posix().encode() + b"\0" + file.read_bytes())
    return {
        "autograder": f"{importlib.metadata.version('autograd-er')} ({digest.hexdigest()[:12]})"
    } | deciding_versions()


def difference(theirs: dict[str, str]) -> str:
    """Returns how another machine's `handshake_versions` differ from ours, "" where they do not."""
    ours = handshake_versions()
    names = [name for name in ours if theirs.get(name) != ours[name]]
    return "; ".join(f"{name} {theirs.get(name, 'missing')} there, {ours[name]} here" for name in names)


@cache
def machine_kind() -> str:
    """Returns the processor's name and count and the memory, such as "x86_64, AMD EPYC 7B13, 16 processors, 64 GiB"."""
    try:
        model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.M)
    except OSError:
        model = None
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    processor = f", {model[1]}" if model else ""
    return f"{platform.machine()}{processor}, {os.cpu_count()} processors, {memory:.0f} GiB"
