"""Prints which code of `autograder` the tests reach, with its branches.

    python -m tests.coverage_report [--quick | --slow | --all] [arguments of pytest]

The command runs `autograder test` with these arguments, and measures the workers of pytest-xdist, their forks and all
Python processes that the tests start. A process with an empty environment or a read-only file system records nothing;
NOT_MEASURED lists such code. Tests of a program's threads and of endless recursion fail here, because coverage traces
them, and the test that the command line loads no package, because coverage is one. The exit code is that of the tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "autograder"
SETTINGS = """\
[run]
branch = true
parallel = true
source = {package}
data_file = {folder}/measured
patch = _exit
"""
"""`patch = _exit` saves the data of a fork that ends without clean-up, as all forks of the package do.

`patch = fork` is left out: it makes every fork start anew, and each then saves the data of its parent a second time.
"""

# A line of this code that is reported as missed may have been executed.
NOT_MEASURED = {
    "autograder/grade/sandbox": "runs in the sandbox: empty environment, no folder to write to",
    "autograder/grade/submission": "partly runs in the sandbox, in lanes and workers",
    "autograder/grade/backends/lane.py": "runs in the sandbox",
    "autograder/grade/wire/outputs.py": "partly runs in the sandbox",
    "autograder/graded.py": "runs in submissions, in the sandbox",
    "autograder/tape/observe": "runs while our own trace function replaces that of coverage",
    "autograder/tape/run/programs/scratch_folder.py": "partly runs as an audit hook, which Python does not trace",
    "autograder/tape/repair/trial/trial_run.py": "partly runs as a profile function, which Python does not trace",
    "autograder/cli/bootstrap.py": "runs on a bare machine, in an environment without coverage",
}


def main(words: list[str]) -> int:
    """Run the tests, print the report, and return the exit code of the tests."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "settings"
        settings.write_text(SETTINGS.format(package=PACKAGE, folder=folder), "utf-8")
        # coverage's own .pth file starts it in every process that inherits this variable
        environment = {**os.environ, "COVERAGE_PROCESS_START": str(settings)}
        code = subprocess.run(
            [sys.executable, "-m", "autograder", "test", *words], cwd=ROOT, env=environment
        ).returncode
        print("\n".join(report_lines(measured(settings))))
    return code


def measured(settings: Path) -> dict[str, Any]:
    """Return coverage's JSON report on the combined data of all processes."""
    data = coverage.Coverage(config_file=str(settings))
    data.combine([str(settings.parent)])
    report = settings.with_suffix(".json")
    data.json_report(outfile=str(report))
    return json.loads(report.read_text("utf-8"))["files"]


def report_lines(files: dict[str, Any]) -> Iterator[str]:
    """Return the report: a line for each subpackage, the unreached functions, and the code that is not measured."""
    totals: dict[str, Counter[str]] = {}
    for file, found in files.items():
        counts = totals.setdefault(subpackage(file), Counter())
        counts.update({key: found["summary"][key] for key in COUNTED})
    for name, counts in [*sorted(totals.items()), ("all", sum(totals.values(), Counter()))]:
        statements, branches, *reached = (counts[key] for key in COUNTED)
        yield f"{name:24} {sum(reached) / max(statements + branches, 1):6.1%} of {statements:6,} statements and {branches:6,} branches"
    missed = list(unreached(files))
    measured = [place for place in missed if not place.startswith(tuple(NOT_MEASURED))]
    yield from (f"\nfunctions that no test reaches: {len(measured)}", *measured, "\nnot measured:")
    for path, reason in NOT_MEASURED.items():
        yield from (f"{path}: {reason}", *(f"  {place}" for place in missed if place.startswith(path)))


COUNTED = ("num_statements", "num_branches", "covered_lines", "covered_branches")  # keys of coverage's summary


def subpackage(file: str) -> str:
    """Return the folder of a file to the second level, such as "tape/repair"; of a file at the top, "autograder"."""
    return "/".join(Path(file).parent.parts[1:3]) or "autograder"


def unreached(files: dict[str, Any]) -> Iterator[str]:
    """Return the functions with statements of which no process executed any, such as "autograder/errors.py:12 printable"."""
    for file, found in sorted(files.items()):
        for name, region in found["functions"].items():
            if name and region["missing_lines"] and not region["executed_lines"]:
                yield f"{file}:{region['start_line']} {name}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
