"""A class graded while machines crash: `python -m tests.cluster.kills` is the large form, with 2,000 submissions and ten crashes.

Rows are compared with those of one undisturbed machine.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from autograder.grade.where.cluster.scheduler.certificates import make_certificates
from tests.cluster.machines import ROOT, DaskMachines, Machines
from tests.cluster.small_class import make_class, without_seconds

PATIENCE = 7200.0


def graded(course: Path) -> int:
    """Returns how many students have their autograded folder."""
    return sum(1 for _ in course.glob("autograded/*/small"))


def rows_here(course: Path, jobs: int = 2) -> list[dict[str, Any]]:
    """Returns the rows of a class graded on this machine, so many at once."""
    command = [sys.executable, "-m", "autograder", "grade", "small", "--course", str(course), "--json"]
    command += ["--jobs", str(jobs)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode in (0, 1), done.stderr
    return without_seconds(json.loads(done.stdout)["students"])


def rows_of(log: Path) -> list[dict[str, Any]]:
    """Returns the rows that the client printed last."""
    text = log.read_text()
    return without_seconds(json.loads(text[text.rindex("\n{\n") :])["students"])


def crash_while_grading(
    cluster: DaskMachines, course: Path, workers: range, client: subprocess.Popen[bytes], crashes: int, students: int
) -> list[int]:
    """Crashes random workers, spread over the run, and starts each again; returns at how many grades each crash came."""
    chance, marks = random.Random(7), []
    points = sorted(chance.randrange(1, students * 9 // 10) for _ in range(crashes))
    until = time.monotonic() + PATIENCE
    for point in points:
        while graded(course) < point and client.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        number = chance.choice(workers)
        cluster.machines.crash(number)
        marks.append(graded(course))
        cluster.start_worker(number)
    client.wait(max(1.0, until - time.monotonic()))
    return marks


def main() -> None:
    """Prints how the large form went; ends with 1 where rows differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.kills", description=__doc__)
    parser.add_argument("--students", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--crashes", type=int, default=10)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_certificates(folder / "certs")
        course = make_class(folder / "there", chosen.students)
        workers = range(2, 2 + chosen.workers)
        with Machines(chosen.workers + 2, folder) as machines:
            cluster = DaskMachines(machines, folder / "certs")
            cluster.start_scheduler()
            for number in workers:
                cluster.start_worker(number)
            start = time.monotonic()
            client = cluster.grade(chosen.workers + 2, course)
            marks = crash_while_grading(cluster, course, workers, client, chosen.crashes, chosen.students)
            seconds = time.monotonic() - start
        print(f"{graded(course)} graded, crashes at {marks} grades, {seconds:.0f} s; now on one machine", flush=True)
        there = rows_of(folder / "client.log")
        here = rows_here(make_class(folder / "here", chosen.students), chosen.workers)
    same = sum(one == other for one, other in zip(here, there, strict=True))
    print(f"{len(there)} submissions, {chosen.workers} workers, {len(marks)} crashes: {same} rows equal")
    sys.exit(same != len(here) or len(here) != chosen.students)


if __name__ == "__main__":
    main()
