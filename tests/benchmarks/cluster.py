"""The cost of a Dask cluster compared with lanes of one machine. `python -m tests.benchmarks.cluster`

Both are started, then grade in turns, so that the machine's other load falls on both. Processor time includes all child processes.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from autograder.grade.sandbox.isolation import require_level
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.where.dask_cluster import choose_cluster
from autograder.grade.where.grading_job import Graders, GradingTerms, Job
from autograder.grade.where.local_processes import LocalBackend
from autograder.grade.wire.limits import Limits
from tests.grade.small_course import answer, graded_cell, hand_in, source, teacher


class Cost(NamedTuple):
    """Seconds on the clock and of processor time."""

    clock: float
    processor: float


def processor_seconds() -> float:
    """Return the processor time of this process, of its running descendants, and of all that these waited for."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def cost(graders: Graders, jobs: list[Job]) -> Cost:
    """Grade the jobs, and return their cost."""
    start, processor = time.perf_counter(), processor_seconds()
    assert all(result.grade is not None for result in graders.grade(jobs))
    return Cost(time.perf_counter() - start, processor_seconds() - processor)


def course() -> AssignmentSource:
    """Return a source of one exercise."""
    return source(
        teacher("import torch"),
        answer("a", "def double(x):\n    return x * 2"),
        graded_cell("t", "x = torch.arange(4.0)\nassert torch.equal(double(x), x + x)"),
    )


def main() -> None:
    """Print the cost of a submission on two lanes of this machine, and on two workers."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.cluster", description=__doc__)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--submissions", type=int, default=50, help="in each turn")
    chosen = parser.parse_args()
    terms = GradingTerms({"small": course()}, require_level("bubblewrap"), Limits(), 1)
    jobs = [Job(f"s{number}", "small", hand_in(course()), {}) for number in range(chosen.submissions)]
    with (
        LocalBackend(terms.level, 2) as backend,
        backend.graders(terms) as lanes,
        choose_cluster("local:2", Path(), None, terms.level.name, 1) as cluster,
        cluster.graders(terms) as workers,
    ):
        places: dict[str, Graders] = {"two lanes": lanes, "two workers": workers}
        for graders in places.values():
            cost(graders, jobs[:8])  # processes start with their first jobs
        costs: dict[str, list[Cost]] = {name: [] for name in places}
        for _ in range(chosen.turns):
            for name, graders in places.items():
                costs[name].append(cost(graders, jobs))
    for name, turns in costs.items():
        clock, processor = (1000 * sum(values) / len(turns) / chosen.submissions for values in zip(*turns, strict=True))
        print(f"{name}: {clock:.0f} ms on the clock and {processor:.0f} ms of processor time for each submission")


if __name__ == "__main__":
    main()
