"""`doctor`: report the installed software that the course uses, and how to install the rest."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
from typing import NamedTuple

from autograder.grade.sandbox.isolation.levels import LEVELS, STRONGEST
from autograder.grade.sandbox.isolation.machine_walls import Wall, walls
from autograder.installation.requirements import CLONE, install_command, torch_advice

# Package -> the extra that installs it; every installation includes torch.
PACKAGES = {"jupyterlab": "course", "nbgrader": "course", "ipywidgets": "course", "matplotlib": "course"}


class Finding(NamedTuple):
    """One line of the report; `advice` describes how to install a missing part, and is "" otherwise."""

    what: str
    found: str
    advice: str = ""


def examine() -> list[Finding]:
    """Return the findings on this machine."""
    python = Finding("Python", platform.python_version())
    packages = [_package(name, install_command(extra)) for name, extra in PACKAGES.items()]
    return [python, _torch(), *packages, _browser(), _isolation(), *map(_wall, walls())]


def _torch() -> Finding:
    advice = torch_advice()
    return _package("torch", "pip install torch")._replace(advice=advice and f"autograder needs {advice}")


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


def _wall(wall: Wall) -> Finding:
    return Finding(wall.what, wall.found, wall.advice)
