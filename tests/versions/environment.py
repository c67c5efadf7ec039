"""An environment with one release of PyTorch and the packages that the corpus needs."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
BESIDE = ("expecttest", "numpy", "pytest", "pytest-timeout")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "autograder" / "versions"
READY = "ok"  # a file in the environment, written when all is installed


class EnvironmentFailure(Exception):
    """No environment could be made; the message is one sentence."""


def python_with(version: str, folder: Path) -> Path:
    """Return an interpreter with this release of PyTorch: the current one, or that of an environment in `folder`, created if needed.

    Raises:
        EnvironmentFailure: the version is invalid, or could not be installed.
    """
    if not re.fullmatch(r"\d+(\.\d+)+", version):
        raise EnvironmentFailure(f"{version!r} is no release of PyTorch: give numbers such as 2.13.0.")
    if importlib.metadata.version("torch").partition("+")[0] == version:
        return Path(sys.executable)
    place = folder / f"torch-{version}"
    python = place / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if not (place / READY).exists():
        print(f"Installing PyTorch {version} in {place}: several GB, some minutes, once.", file=sys.stderr)
        _install(version, place, python)
        (place / READY).touch()
    return python


def _install(version: str, place: Path, python: Path) -> None:
    needed = [one for one in tomllib.loads(PROJECT.read_text("utf-8"))["project"]["dependencies"] if "torch" not in one]
    steps = (
        [sys.executable, "-m", "venv", place],
        [python, "-m", "pip", "install", "--quiet", f"torch=={version}", *needed, *BESIDE],
    )
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True)
        if done.returncode:
            errors = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("ERROR: ")]
            reason = errors[-1].removeprefix("ERROR: ") if errors else "no reason given"
            raise EnvironmentFailure(f"PyTorch {version} could not be installed in {place}: {reason}")
