"""Runs the facts and the corpus on several releases of PyTorch, with one row for each.

    python -m tests.versions 2.6.0 2.10.0 2.13.0 2.15.0 [--environments DIR] [--sample N] [--workers N]

Each release has a separate environment, outside the clone and kept between runs (several GB each with the default
index); the release that runs this command does not need one. The command prints a table in Markdown, and below it each
program that differs, with the reason. The exit code is 1 if a program differs and plain PyTorch does not, or if a fact
fails; it is 2 if an environment cannot be created.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.versions.environment import CACHE, EnvironmentFailure, python_with
from tests.versions.table import differences, heading, row

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Measures each release that is named and prints as it goes."""
    options = parsed()
    reports: list[dict] = []
    unexplained = 0
    try:
        pythons = [python_with(version, options.environments) for version in options.versions]
        for python in pythons:
            reports.append(measured(python, options.sample, options.workers))
            print(*([] if len(reports) > 1 else [heading()]), row(reports[-1]), sep="\n", flush=True)
    except EnvironmentFailure as failure:
        print(failure, file=sys.stderr)
        return 2
    for report in reports:
        lines, more = differences(report)
        unexplained += more
        print(*lines, sep="\n")
    return 1 if unexplained else 0


def parsed() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="+", metavar="VERSION", help="a release of PyTorch, such as 2.13.0")
    parser.add_argument(
        "--environments", type=Path, default=CACHE, metavar="DIR", help=f"where they are kept ({CACHE})"
    )
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="only each Nth program of the corpus")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes at work at once (2)")
    return parser.parse_args()


def measured(python: Path, sample: int, workers: int) -> dict:
    """Return what `tests.versions.measure` found with the PyTorch of one environment."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "report.json"
        command = [python, "-m", "tests.versions.measure", output, str(sample), str(workers)]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no word"])[-1]
            raise EnvironmentFailure(f"The corpus could not be run with {python}: {last}")
        return json.loads(output.read_text("utf-8"))


if __name__ == "__main__":
    sys.exit(main())
