"""Short descriptions of pip's and venv's output. Uses only the standard library, as the bootstrap does."""

from __future__ import annotations

import re
import sys
from pathlib import Path

AGAIN = "and run the command again; it continues from here."


def stage(lines: list[str], total: int = 0, unpacked: int = 0) -> str:
    """Return pip's current stage from its output, such as "fetching 12 of 150: jupyterlab (12.2 MB)".

    Args:
        lines: pip's output so far (pip 23 to 26, without its progress bar).
        total: the number of packages to install; 0 omits it from the text.
        unpacked: the number of packages installed so far, which pip does not print.
    """
    unpacking = [line for line in lines if line.startswith("Installing collected packages:")]
    if unpacking:
        count = unpacking[0].count(",") + 1
        return "unpacking" + (f" {min(unpacked, count)} of {count}" if count > 1 else ", up to two minutes")
    total -= sum(line.startswith("Ignoring ") for line in lines)  # needed only on other systems
    found = sum(line.startswith(("Collecting ", "Requirement already satisfied")) for line in lines)
    counted = f" {min(found, total)} of {total}" if total > 0 else ""
    sizes = [
        match for line in lines if (match := re.match(r"\s*Downloading (?:.*/)?([^-/\s]+)-\S+ (\([\d.]+ \w+\))", line))
    ]
    return f"fetching{counted}" + (f": {sizes[-1][1]} {sizes[-1][2]}" if sizes else "")


def reason(output: str, environment: Path) -> str | None:
    """Return the sentence for a failure that a user can correct, or None.

    Args:
        output: the complete output of pip or venv.
        environment: the folder to create.
    """
    if "No space left on device" in output:
        return f"the disk is full. Free some space at {environment.parent} {AGAIN}"
    if "NewConnectionError" in output or "name resolution" in output or "Network is unreachable" in output:
        return f"the package index could not be reached. Check the network {AGAIN}"
    if "Permission denied" in output or "Read-only file system" in output:
        return f"{environment} cannot be written. Clone the project to a folder of your own."
    if "DO NOT MATCH THE HASHES" in output:
        return f"the hash of a downloaded file differs from the one in the lock. Try another network or index {AGAIN}"
    if "No matching distribution" in output:
        missing = output.partition("No matching distribution found for ")[2].split("\n")[0].split(" (from")[0]
        return f"there is no {missing} for this Python ({sys.version.split()[0]}) and system. Try another Python from 3.11 on."
    return None
