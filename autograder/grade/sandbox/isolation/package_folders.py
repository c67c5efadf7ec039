"""Which folders a server needs in order to import Python's packages and this one, and which of them a submission must not see."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable
from importlib.machinery import PathFinder

from autograder.installation.requirements import PACKAGE

IMPORT_ROOT = PACKAGE.parent  # a clone, or site-packages
# The search for repairs would find the answers to most exercises.
HIDDEN_PACKAGES = ("autograder.tape.repair",)


def package_folders() -> list[str]:
    """Returns the folders that hold Python, its packages and this one, apart from those in /usr; outer folders first."""
    found = {sys.base_prefix, sys.prefix, *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))}
    found |= {str(path) for path in (PACKAGE, IMPORT_ROOT / "assets") if path.exists()}
    outside = [path for path in sorted(found, key=len) if not path.startswith("/usr/") and os.path.exists(path)]
    return [path for path in outside if not any(path.startswith(f"{other}/") for other in outside)]


def hidden_folders() -> list[str]:
    """Returns every folder from which a submission could import a hidden package: there may be a clone and a wheel."""
    roots = [str(IMPORT_ROOT), *(sysconfig.get_path(name) for name in ("purelib", "platlib")), *sys.path]
    visible = tuple(f"{folder}/" for folder in ("/usr", *package_folders()))
    found: dict[str, str] = {}
    for package in HIDDEN_PACKAGES:
        for folder in find_copies(package, roots):
            if folder.startswith(visible):
                found.setdefault(os.path.realpath(folder), folder)  # lib64 is often a link to lib
    return list(found.values())


def find_copies(package: str, roots: Iterable[str]) -> list[str]:
    """Returns the folders of a package below each of the roots, found as Python's import does, without importing anything."""
    folders = list(roots)
    for name in package.split("."):
        specs = [PathFinder.find_spec(name, [folder]) for folder in folders]
        folders = [place for spec in specs if spec for place in spec.submodule_search_locations or ()]
    return folders
