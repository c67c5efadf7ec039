"""The distribution of jobs: a real scheduler and workers in this process, with a stub for the grading."""

import asyncio
import contextlib
import platform
import re
import threading
from types import SimpleNamespace

import dask
import msgspec
import pytest
from distributed import Client, LocalCluster, get_worker

from autograder.errors import UnfinishedError
from autograder.grade.backends import dask_cluster
from autograder.grade.backends.dask_cluster import DaskCluster, GradingPlugin
from autograder.grade.backends.grading_job import GradingTerms, Job, JobResult
from autograder.grade.submission.notebook_grade import CellGrade, NotebookGrade
from autograder.grade.wire.limits import Limits
from tests.grade.small_course import answer, graded_cell, source

POISON, SLOW, BAD = b"poison", b"slow", b"bad"
BEGUN, RELEASED = threading.Event(), threading.Event()
EMPTY = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
FULL = NotebookGrade(cells={"t": CellGrade(status="correct", points=1.0, max_points=1.0)}, comments={}, notebook=EMPTY)
TERMS = GradingTerms(
    {"small": source(answer("a", "x = 1"), graded_cell("t", "assert x == 1"))}, "bubblewrap", Limits(), 1
)


FAILURE = "grading it failed, at last alone: ValueError: bad"


def fails(_):
    """Fail as a full disk does."""
    raise OSError(28, "No space left on device")


def with_other_cells(result):
    """Return a grade for a cell that the source does not have."""
    return msgspec.structs.replace(result, grade=msgspec.structs.replace(FULL, cells={"no such cell": FULL.cells["t"]}))


WRONG_ANSWERS = {
    "none": lambda result: result,
    "for another job": lambda result: msgspec.structs.replace(result, student="another token"),
    "other cells": with_other_cells,
    "not a result": lambda result: {"nonsense": [1, 2, 3]},
    "an error": fails,
    "no grade": lambda result: msgspec.structs.replace(result, grade=None, failure="the grader failed"),
}


class StubBackend:
    """Gives full points immediately. A poisoned job ends its worker; the first worker gives `wrong` answers."""

    def __init__(self, wrong):
        self.wrong = wrong

    def grade(self, jobs):
        """Return the results of jobs."""
        [job], worker = jobs, get_worker()
        if job.data == POISON:
            ending = worker.close(nanny=False, executor_wait=False)
            asyncio.run_coroutine_threadsafe(ending, worker.loop.asyncio_loop).result(30)
        if job.data == BAD:
            raise ValueError("bad")
        if job.data == SLOW:
            BEGUN.set()
            RELEASED.wait(300)
        change = WRONG_ANSWERS[self.wrong if worker.name == 0 else "none"]
        return [change(JobResult(job.student, job.notebook, FULL))]


class StubPlugin(GradingPlugin):
    """Grades with the stub on any machine."""

    wrong = "none"

    def _problem(self, address):
        return None

    def _opened(self):
        return StubBackend(self.wrong)


@contextlib.contextmanager
def cluster(workers):
    """Yield a cluster whose workers are threads of this process, on the loopback address."""
    options = {"processes": False, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with (
        LocalCluster(n_workers=workers, host="127.0.0.1", protocol="tcp://", **options) as started,
        Client(started, set_as_default=False) as client,
    ):
        yield DaskCluster(client, 1, 30.0)


@pytest.fixture
def stub(monkeypatch):
    """The stub, which workers get instead of the plugin."""
    BEGUN.clear()
    RELEASED.clear()
    plugin = type("Stub", (StubPlugin,), {})
    monkeypatch.setattr(dask_cluster, "GradingPlugin", plugin)
    yield plugin
    RELEASED.set()


def jobs(count, special=None):
    """Return jobs of as many students; `special` has the data of some."""
    return [Job(f"student {number}", "small", (special or {}).get(number, b"{}"), {}) for number in range(count)]


@pytest.mark.usefixtures("stub")
def test_a_job_that_ends_its_workers_costs_no_other_job_its_grade():
    """One of 20 jobs ends every worker that runs it: it gets a reason instead of a grade, and all others get their grades."""
    with cluster(6) as there, there.prepared(TERMS) as backend:
        there._client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
        results = list(backend.grade(jobs(20, {3: POISON})))
    assert sorted(job.student for job in jobs(20)) == sorted(result.student for result in results)
    [failed] = [result for result in results if result.grade is None]
    assert ("student 3", results[-1]) == (failed.student, failed)
    assert "grading it failed, at last alone: it ended its workers" == failed.failure


@pytest.mark.usefixtures("stub")
def test_jobs_that_fail_everywhere_are_not_the_workers_fault():
    """Jobs that no worker can grade have a reason each; the workers go on, however many such jobs run alone in a row."""
    with cluster(2) as there, there.prepared(TERMS) as backend:
        results = list(backend.grade(jobs(60, dict.fromkeys(range(0, 60, 10), BAD))))
    assert sorted(job.student for job in jobs(60)) == sorted(result.student for result in results)
    failed = {result.student: result.failure for result in results if result.grade is None}
    assert dict.fromkeys([f"student {number}" for number in range(0, 60, 10)], FAILURE) == failed


@pytest.mark.usefixtures("stub")
def test_a_worker_that_joins_late_gets_jobs_at_once():
    """While the only worker is busy with one job, a second worker starts and grades all further jobs."""
    with cluster(1) as there, there.prepared(TERMS) as backend:
        results = backend.grade(jobs(30, {0: SLOW}))
        threading.Thread(target=lambda: BEGUN.wait(300) and there._client.cluster.scale(2)).start()
        first = [next(results) for _ in range(28)]  # the busy worker has one more in reserve
        RELEASED.set()
        rest = list(results)
    assert {f"1 on {platform.node()}"} == {result.worker for result in first}
    assert {"student 0"} <= {result.student for result in rest}
    assert 30 == len({result.student for result in first + rest})


@pytest.mark.usefixtures("stub")
def test_the_jobs_of_the_only_worker_go_to_its_successor():
    """The only worker is lost with its jobs, and another one starts: each job has exactly one result."""
    with cluster(1) as there, there.prepared(TERMS) as backend:
        results = backend.grade(jobs(10, {4: SLOW}))
        found = [next(results) for _ in range(3)]
        BEGUN.wait(300)
        there._client.cluster.scale(0)
        RELEASED.set()
        there._client.cluster.scale(1)
        found += results
    assert sorted(job.student for job in jobs(10)) == sorted(result.student for result in found)
    assert {1.0} == {result.grade.points for result in found}


@pytest.mark.parametrize("wrong", list(WRONG_ANSWERS)[1:])
def test_a_worker_whose_answers_cannot_be_right_is_left_out(stub, wrong, capsys):
    """Whatever one of three workers answers instead of a grade, every job gets its points from another worker."""
    stub.wrong = wrong
    with cluster(3) as there, there.prepared(TERMS) as backend:
        results = list(backend.grade(jobs(60)))
    assert sorted(job.student for job in jobs(60)) == sorted(result.student for result in results)
    assert {1.0} == {result.grade.points for result in results}
    assert {f"1 on {platform.node()}", f"2 on {platform.node()}"} == {result.worker for result in results}
    said = capsys.readouterr().err
    assert f"worker 0 on {platform.node()} gets no more submissions: it failed 3 times in a row" in said


@pytest.mark.parametrize(("module", "name", "value", "said"), [
    (dask_cluster, "handshake_versions", lambda: {"torch": "1.0"}, "has another installation .*torch"),
    (dask_cluster, "LEVELS", {"bubblewrap": SimpleNamespace(obstacle="no bwrap")}, "isolation level .*: no bwrap"),
    (dask_cluster, "is_exposed", lambda _: True, "listens at tcp://127.0.0.1:.* neither encrypted nor"),
])  # fmt: skip
def test_a_worker_that_must_not_grade_gets_no_job(monkeypatch, capsys, module, name, value, said):
    """For other versions, a lower isolation level or an open port, the reason is shown; without other workers, nothing is graded."""
    monkeypatch.setattr(module, name, value)
    with (
        cluster(1) as there,
        pytest.raises(UnfinishedError, match=f"no worker of the cluster can grade: 0 on .* {said}.*--resume"),
        there.prepared(TERMS),
    ):
        pass
    assert re.search(f"worker 0 on .* gets no submission: it .*{said}", capsys.readouterr().err)


@pytest.mark.usefixtures("stub")
def test_a_scheduler_that_is_lost_ends_the_run():
    """The run ends immediately with advice on how to continue; earlier results were yielded."""
    brief = dask.config.set({"distributed.comm.timeouts.connect": "1s"})
    with brief, cluster(1) as there, there.prepared(TERMS) as backend:
        results = backend.grade(jobs(10, {4: SLOW}))
        assert 3 == len([next(results) for _ in range(3)])
        BEGUN.wait(300)
        there._client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.loop.add_callback(dask_scheduler.close))
        with pytest.raises(UnfinishedError, match=r"scheduler .* Grades so far are kept; run again with --resume"):
            list(results)
        RELEASED.set()


@pytest.mark.usefixtures("stub")
def test_plain_data_crosses_and_no_name_of_a_student(monkeypatch):
    """Text and bytes are sent and come back; neither they nor the keys, which the dashboard shows, contain a student's name."""
    with cluster(1) as there, there.prepared(TERMS) as backend:
        sent, submit = [], there._client.submit
        monkeypatch.setattr(
            there._client, "submit", lambda *words, **how: sent.append((words, how)) or submit(*words, **how)
        )
        assert 3 == len(list(backend.grade(jobs(3))))
    assert 3 == len(sent)
    for (function, *words), how in sent:
        assert dask_cluster.grade_on_worker is function
        assert [str, bytes] == [type(word) for word in words]
        assert b"student 0" not in words[1]
        assert re.fullmatch(r"grade-[0-9a-f]{16}", how["key"])
    assert {str, bytes, dict, int} == {
        type(value) for value in vars(GradingPlugin("name", b"", "level", {}, 1)).values()
    }
