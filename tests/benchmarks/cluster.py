"""What a Dask cluster costs beside the processes of one machine, and how it grows. `python -m tests.benchmarks.cluster`

Ratios are of one run on one machine, and starts are not counted. For the overhead both are started, then grade by turns, so that
what else the machine does falls on both; processor time is that of this process and of all that it has started.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import platform
import statistics
import tempfile
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from distributed import LocalCluster, Security

from autograder.grade.batch.assignment import Options, grade_assignment
from autograder.grade.sandbox.isolation.levels import require_level
from autograder.grade.sandbox.launch import ServerPool
from autograder.grade.submission.notebook_grade import CellGrade, NotebookGrade
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.where.cluster.client.cluster_graders import ClusterGraders
from autograder.grade.where.cluster.scheduler.scheduler_link import SchedulerLink
from autograder.grade.where.cluster.worker.host_messages import WorkerReport
from autograder.grade.where.cluster.worker.worker_plugin import GradingPlugin
from autograder.grade.where.grading_job import Graders, GradingTerms, Job, JobResult
from autograder.grade.where.local_processes import GraderProcesses
from autograder.grade.wire.limits import Limits
from tests.cluster.small_class import make_class
from tests.cluster.stand_in_place import StandInPlace
from tests.grade.small_course import answer, graded_cell, hand_in, source, teacher

CLIENT_MARKS = (1_000, 3_000, 10_000, 30_000)


class SleepingHost:
    """Stands in for the process that grades: sleeps as long as a job's first bytes say, and gives full points."""

    def grade(self, job: Job) -> JobResult:
        """Returns a grade."""
        time.sleep(float(job.data[:8]))
        cell = CellGrade(status="correct", points=1.0, max_points=1.0)
        return JobResult(
            job.student, job.notebook, NotebookGrade(cells={"t": cell}, comments={}, notebook=job.data.decode())
        )

    def close(self) -> None:
        """Does nothing."""


class SleepingPlugin(GradingPlugin):
    """Gives a worker the stand-in."""

    async def setup(self, worker: Any) -> None:
        """Is ready at once."""
        self.host = SleepingHost()  # type: ignore[assignment]
        self.report = WorkerReport(str(worker.name), platform.node(), worker.state.nthreads)


class SleepingGraders(ClusterGraders):
    """Grades with the stand-in; all else is as it is."""

    plugin_type = SleepingPlugin


def link(workers: int) -> SchedulerLink:
    """Starts workers of one thread on this machine, encrypted."""
    security = Security.temporary()
    options: dict[str, Any] = {
        "n_workers": workers,
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": None,
    }
    cluster = LocalCluster(host="127.0.0.1", protocol="tls://", security=security, silence_logs=50, **options)
    return SchedulerLink(cluster, security)


def seconds(graders: AbstractContextManager[Graders], jobs: Iterable[Job]) -> float:
    """Returns the time from the first result to the last one."""
    with graders as place:
        results = place.grade(jobs)
        assert next(results).grade is not None
        start = time.perf_counter()
        assert all(result.grade is not None for result in results)
        return time.perf_counter() - start


def processor_seconds() -> float:
    """Returns the processor time of this process, of all that it started and that still run, and of all that these waited for."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


class Cost(NamedTuple):
    """What grading some jobs took, in seconds."""

    wall: float
    processor: float


def cost(place: Graders, jobs: list[Job]) -> Cost:
    """Grades with what was started before."""
    start, processor = time.perf_counter(), processor_seconds()
    assert all(result.grade is not None for result in place.grade(jobs))
    return Cost(time.perf_counter() - start, processor_seconds() - processor)


def course() -> AssignmentSource:
    """Returns a source of one exercise."""
    return source(
        teacher("import torch"),
        answer("a", "def double(x):\n    return x * 2"),
        graded_cell("t", "x = torch.arange(4.0)\nassert torch.equal(double(x), x + x)"),
    )


def terms() -> GradingTerms:
    """Returns the terms: everything isolated."""
    return GradingTerms({"small": course()}, require_level("bubblewrap"), Limits(), 1)


def overhead(count: int, turn: int) -> None:
    """Prints what two workers take for a class beside two processes of one machine, in turns of some submissions."""
    jobs = [Job(f"s{number}", "small", hand_in(course()), {}) for number in range(turn)]
    here, there = [], []
    with (
        ServerPool(require_level("bubblewrap"), 2) as servers,
        GraderProcesses(terms(), 2, servers) as local,
        link(2) as two,
        ClusterGraders(two, terms(), 1, print) as dask,
    ):
        for place in (local, dask):
            cost(place, jobs[:8])  # processes are started with their first jobs
        for _ in range(count // turn):
            here.append(cost(local, jobs))
            there.append(cost(dask, jobs))
    for name, one, other in (
        ("clock", [one.wall for one in here], [one.wall for one in there]),
        ("processor", [one.processor for one in here], [one.processor for one in there]),
    ):
        ratios = sorted(100 * (b / a - 1) for a, b in zip(one, other, strict=True))
        each = f"here {1000 * sum(one) / count:.0f}, two workers {1000 * sum(other) / count:.0f} ms each"
        spread = f"turns {ratios[0]:+.0f} to {ratios[-1]:+.0f} %, median {statistics.median(ratios):+.1f} %"
        print(f"overhead, {count} submissions, {name}: {each}, {100 * (sum(other) / sum(one) - 1):+.1f} % ({spread})")


def growth(per_worker: int, nap: float) -> None:
    """Prints the rate of 1 to 16 workers with jobs that sleep."""
    first = 0.0
    for workers in (1, 2, 4, 8, 16):
        jobs = [Job(f"s{number}", "small", f"{nap:08.3f}".encode(), {}) for number in range(per_worker * workers)]
        with link(workers) as one:
            rate = len(jobs) / seconds(SleepingGraders(one, terms(), 1, print), jobs)
        first = first or rate
        print(
            f"growth, jobs of {nap:g} s: {workers:2} workers, {rate:6.1f} a second, {rate / first:5.2f} times one worker",
            flush=True,
        )


def client_costs(most: int) -> None:
    """Prints the client's time and memory on the way to so many submissions, with jobs that take no time and notebooks of 10 kB."""
    data = b"0000.000" + b" " * 10_000
    jobs = (Job(f"s{number}", "small", data, {}) for number in range(most))
    done, started, busy = 0, time.perf_counter(), time.process_time()
    with link(2) as two, SleepingGraders(two, terms(), 1, print) as place:
        results = place.grade(jobs)
        for mark in (*(mark for mark in CLIENT_MARKS if mark < most), most):
            part = sum(result.grade is not None for result in itertools.islice(results, mark - done))
            done += part
            memory = psutil.Process().memory_info().rss / 2**20
            each = f"{1000 * (time.perf_counter() - started) / part:.2f} ms each, {1000 * (time.process_time() - busy) / part:.2f} ms"
            print(f"client and scheduler, up to {done:6}: {each} of processor time, {memory:.0f} MiB", flush=True)
            started, busy = time.perf_counter(), time.process_time()


def writing_costs(count: int) -> None:
    """Prints the client's processor time for reading a hand-in and writing its grade, by how many results come together."""
    for together in (1, 8, 32):
        took = 1000 * writing_seconds(count, together)
        print(f"gradebook, {count} students, {together:2} results together: {took:.1f} ms of processor time each")


def writing_seconds(count: int, together: int) -> float:
    """Returns the processor time for each student of a class, between the first and the last results."""
    marks: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = make_class(Path(name) / "class", count)
        place = StandInPlace(together)
        grade_assignment("small", folder, Options(), lambda _: marks.append(time.process_time()), place)
    return (marks[-1] - marks[0]) / (count - together)


def main() -> None:
    """Prints all figures, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.cluster", description=__doc__)
    parser.add_argument("--submissions", type=int, default=500)
    parser.add_argument("--turn", type=int, default=50)
    parser.add_argument("--nap", type=float, default=1.0)
    parser.add_argument("--stand-ins", type=int, default=100_000)
    parser.add_argument("only", nargs="*", choices=["overhead", "growth", "gradebook", "client", []], default=[])
    chosen = parser.parse_args()
    print(f"{platform.node()}, {psutil.cpu_count()} processors, load {psutil.getloadavg()[0]:.1f}", flush=True)
    figures = {
        "overhead": lambda: overhead(chosen.submissions, chosen.turn),
        "growth": lambda: growth(20, chosen.nap),
        "gradebook": lambda: writing_costs(chosen.submissions),
        "client": lambda: client_costs(chosen.stand_ins),
    }
    for name in chosen.only or figures:
        figures[name]()


if __name__ == "__main__":
    main()
