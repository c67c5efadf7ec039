"""Runs tests with the interpreter of an environment, and reads pytest's report."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]


def tested(python: str | Path, *files: str) -> tuple[int, list[str]]:
    """Returns how many tests these files have, and the names of those that fail or cannot run; one name if none were found."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "results.xml"
        command = [python, "-m", "pytest", *files, f"--junitxml={result}", "-p", "no:cacheprovider"]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        cases = list(ElementTree.parse(result).getroot().iter("testcase")) if result.exists() else []
    failures = [
        case.get("name", "") for case in cases if case.find("failure") is not None or case.find("error") is not None
    ]
    if not cases:
        failures = [(done.stdout.strip().splitlines() or ["pytest gave no report"])[-1]]
    return len(cases), failures
