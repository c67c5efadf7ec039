"""Names of submitted files that every operating system accepts and keeps apart."""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST = 120  # maximum length of a file name in bytes
RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")  # Microsoft, "Naming Files, Paths, and Namespaces"


def writable_names(paths: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """Return, for each path, one that every file system accepts; all are different even if case is ignored.

    Args:
        paths: relative, with `/` between folders.
        taken: names that are already used.
    """
    used = {name.casefold() for name in taken}
    found = {}
    for path in paths:
        name = "/".join(map(_writable, path.split("/")))
        found[path] = _unused(name, used)
        used.add(found[path].casefold())
    return found


def _writable(part: str) -> str:
    part = "".join(letter if letter.isprintable() and letter not in '<>:"|?*\\' else "_" for letter in part)
    part = part.rstrip(". ") or "_"
    if part.startswith("-") or RESERVED.fullmatch(part):
        part = f"_{part}"
    stem, dot, suffix = part.rpartition(".")
    while len(part.encode()) > LONGEST and part:
        stem, suffix = (stem[:-1], suffix) if stem else ("", suffix[:-1])
        part = f"{stem}{dot}{suffix}" if stem else suffix
    return part


def _unused(name: str, used: set[str]) -> str:
    stem, dot, suffix = name.rpartition(".")
    number, chosen = 1, name
    while chosen.casefold() in used:
        number += 1
        chosen = f"{stem} ({number}).{suffix}" if dot and "/" not in suffix else f"{name} ({number})"
    return chosen
