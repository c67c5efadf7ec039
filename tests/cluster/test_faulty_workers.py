"""Workers that end, answer nonsense or have another version: a real scheduler and workers, with stand-ins for what grades."""

import asyncio
import contextlib
import html
import platform
import re
import threading
import urllib.request

import msgspec
import pytest
from distributed import LocalCluster, get_worker

from autograder.grade.sandbox.isolation.isolation_level import IsolationError
from autograder.grade.sandbox.isolation.levels import LEVELS
from autograder.grade.submission.notebook_grade import CellGrade, NotebookGrade
from autograder.grade.where.cluster.client import cluster_graders
from autograder.grade.where.cluster.client.cluster_graders import ClusterGraders
from autograder.grade.where.cluster.scheduler.scheduler_link import SchedulerLink
from autograder.grade.where.cluster.worker import course_bundle
from autograder.grade.where.cluster.worker.host_messages import WorkerReport
from autograder.grade.where.cluster.worker.worker_plugin import GradingPlugin
from autograder.grade.where.grading_job import GradingTerms, Job, JobResult
from autograder.grade.wire.limits import Limits
from tests.grade.small_course import answer, graded_cell, source

POISON, SLOW = b"poison", b"slow"
BEGUN, RELEASED = threading.Event(), threading.Event()
FULL = NotebookGrade(cells={"t": CellGrade(status="correct", points=1.0, max_points=1.0)}, comments={}, notebook="{}")


class StandInHost:
    """Gives full points at once; a poisoned job ends its worker."""

    def grade(self, job):
        """Returns the result of a job."""
        worker = get_worker()
        if job.data == POISON:
            ending = worker.close(nanny=False, executor_wait=False)
            asyncio.run_coroutine_threadsafe(ending, worker.loop.asyncio_loop).result(30)
        if job.data == SLOW:
            BEGUN.set()
            RELEASED.wait(300)
        return FALSE_ANSWERS.get(self.answer, lambda found: found)(JobResult(job.student, job.notebook, FULL))

    answer = ""

    def close(self):
        """Does nothing."""


class StandInPlugin(GradingPlugin):
    """Gives a worker the stand-in; the first worker is the liar's."""

    liar = ""

    async def setup(self, worker):
        """Is ready at once."""
        self.host = StandInHost()
        self.host.answer = self.liar if worker.name == 0 else ""
        self.report = WorkerReport(str(worker.name), platform.node(), worker.state.nthreads)


def other_cells(result):
    """Returns a grade for a cell that the source does not have."""
    return msgspec.structs.replace(result, grade=msgspec.structs.replace(FULL, cells={"no such cell": FULL.cells["t"]}))


def fails(result):
    """Fails as a full disk does."""
    raise OSError(28, "No space left on device")


FALSE_ANSWERS = {
    "another job's": lambda result: msgspec.structs.replace(result, student="somebody else's token"),
    "other cells": other_cells,
    "no result": lambda result: {"nonsense": [1, 2, 3]},
    "an error": fails,
    "no grade": lambda result: msgspec.structs.replace(result, grade=None, failure="the grader failed"),
}


@contextlib.contextmanager
def graders(workers, liar="", notes=None):
    """Yields what grades with stand-ins on as many workers of one thread; the first one's answers are the liar's."""
    plugin = type("LyingPlugin", (StandInPlugin,), {"liar": liar})
    kind = type("StandInGraders", (ClusterGraders,), {"plugin_type": plugin})
    terms = GradingTerms({"small": SMALL}, LEVELS["bubblewrap"], Limits(), 1)
    with cluster(workers) as link, kind(link, terms, 1, (notes if notes is not None else []).append) as grading:
        yield grading


@contextlib.contextmanager
def cluster(workers):
    """Yields the link to a scheduler with workers that are threads of this process, on the loopback address."""
    options = {"processes": False, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with SchedulerLink(LocalCluster(n_workers=workers, host="127.0.0.1", protocol="tcp://", **options), None) as link:
        yield link


SMALL = source(answer("a", "x = 1"), graded_cell("t", "assert x == 1"))


def jobs(count, special=None):
    """Returns jobs of as many students; `special` has the data of some."""
    return [Job(f"student {number}", "small", (special or {}).get(number, b"{}"), {}) for number in range(count)]


def test_a_job_that_ends_its_workers_costs_nobody_else_a_grade():
    """Of 20 jobs one ends every worker that has it: after three workers it has no points and a reason; all others have theirs."""
    with graders(4) as grading:
        results = list(grading.grade(jobs(20, {3: POISON})))
    points = {result.student: result.grade.points for result in results}
    assert (20, 20) == (len(results), len(points))
    assert {"student 3"} == {student for student, found in points.items() if not found}
    [poisoned] = [result for result in results if result.student == "student 3"]
    assert "ended the worker that ran it 3 times" in poisoned.grade.ended


def test_waiting_for_a_worker_is_said(monkeypatch):
    """Where a batch system starts no worker yet, the command says that it waits; when one comes, it grades."""
    monkeypatch.setattr(cluster_graders, "FIRST_WORKER_SECONDS", 0.0)
    notes = []
    with cluster(0) as link:

        def note(sentence):
            notes.append(sentence)
            link._where.scale(1)

        kind = type("StandInGraders", (ClusterGraders,), {"plugin_type": StandInPlugin})
        with kind(link, GradingTerms({"small": SMALL}, LEVELS["bubblewrap"], Limits(), 1), 1, note) as grading:
            assert 3 == len(list(grading.grade(jobs(3))))
    assert ["no worker grades at the moment; waiting for one. Ctrl-C ends this, and what was graded is kept"] == notes


def test_a_worker_that_joins_late_gets_jobs_at_once():
    """While the only worker is busy with one job, a second one is started: it grades all that the first one has no room for."""
    BEGUN.clear()
    RELEASED.clear()
    with graders(1) as grading:
        results = grading.grade(jobs(30, {0: SLOW}))
        threading.Thread(target=lambda: BEGUN.wait(300) and grading._link._where.scale(2)).start()
        first = [next(results) for _ in range(28)]  # the busy worker has one more in reserve
        RELEASED.set()
        rest = list(results)
    assert {"1"} == {result.worker.split(" on ")[0] for result in first}
    assert {"student 0"} <= {result.student for result in rest}
    assert 30 == len({result.student for result in first + rest})


def test_the_jobs_of_a_retired_worker_go_to_others():
    """A worker is retired, as a batch system does before its time is up: no job is lost, none has two results."""
    with graders(2) as grading:
        client = grading._link.client
        results = grading.grade(jobs(40))
        found = [next(results) for _ in range(5)]
        [retired, _] = sorted(client.nthreads())
        client.retire_workers([retired])
        found += results
        assert [retired] == sorted({retired} - set(client.nthreads()))
    assert sorted(job.student for job in jobs(40)) == sorted(result.student for result in found)
    assert {1.0} == {result.grade.points for result in found}


@pytest.mark.parametrize("lie", FALSE_ANSWERS)
def test_a_worker_whose_answers_cannot_be_right_is_left_out(lie):
    """Whatever one of three workers answers instead of a grade, every job ends once with its points, graded by another one."""
    notes = []
    with graders(3, lie, notes) as grading:
        results = list(grading.grade(jobs(60)))
    assert sorted(job.student for job in jobs(60)) == sorted(result.student for result in results)
    assert {1.0} == {result.grade.points for result in results}
    assert {"1", "2"} == {result.worker.split(" on ")[0] for result in results}
    assert [f"worker 0 on {platform.node()} failed several times in a row and gets no more submissions"] == notes


def test_a_worker_with_another_version_gets_nothing(monkeypatch):
    """The handshake names the package with both versions; where that is true of all workers, nothing is graded."""
    ours = course_bundle.handshake_versions()
    monkeypatch.setattr(course_bundle, "handshake_versions", lambda: ours | {"torch": "1.0"})
    terms = GradingTerms({"small": SMALL}, LEVELS["bubblewrap"], Limits(), 1)
    notes = []
    with (
        cluster(1) as link,
        pytest.raises(IsolationError, match=r"no worker of the cluster can grade, so nothing was graded\. .*torch"),
        ClusterGraders(link, terms, 1, notes.append),
    ):
        pass
    assert [True] == ["installation differs (torch " in note for note in notes]


def test_the_dashboard_names_no_student():
    """While jobs run, no page that the scheduler serves has a student's name; the job's random name is there."""
    BEGUN.clear()
    RELEASED.clear()
    seen = []
    with graders(1) as grading:
        looking = threading.Thread(target=look, args=(grading._link.client, seen))
        looking.start()
        assert 2 == len(list(grading.grade(jobs(2, {0: SLOW, 1: SLOW}))))
        looking.join()
    [text] = seen
    assert re.search(r"grade-[0-9a-f]{16}", text)
    assert "student 0" not in text
    assert "student 1" not in text


def look(client, seen):
    """Waits until a job has begun, adds what the dashboard shows, and lets the job end."""
    try:
        BEGUN.wait(300)
        seen.append(pages(client))
    finally:
        RELEASED.set()


def pages(client):
    """Returns the text of the dashboard's pages that need no bokeh."""
    root = client.cluster.dashboard_link.removesuffix("/status")
    key = next(iter(client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))))
    worker = next(iter(client.nthreads())).replace("/", "%2F").replace(":", "%3A")
    paths = ["info/main/workers.html", f"info/worker/{worker}.html", f"info/task/{key}.html", "info/logs.html"]
    paths += ["json/identity.json", "json/counts.json", "metrics"]
    found = []
    for path in paths:
        with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(f"{root}/{path}", timeout=30) as page:
            found.append(html.unescape(page.read().decode()))
    return "\n".join(found)
