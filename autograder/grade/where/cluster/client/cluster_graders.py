"""Grades on the workers of a Dask cluster: sends each job to one worker, and sees to it that every job ends once."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import queue
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from distributed import KilledWorker

from autograder.grade.sandbox.isolation.isolation_level import IsolationError
from autograder.grade.submission.submission_run import unreadable
from autograder.grade.where.cluster.client.grading_tasks import GradingTasks, WorkerAnswer
from autograder.grade.where.cluster.client.job_board import JobBoard, Ticket, ticket_of
from autograder.grade.where.cluster.client.worker_roster import LinkLost, WorkerJoined, WorkerLeft, WorkerRoster
from autograder.grade.where.cluster.scheduler.scheduler_link import ClusterError, ClusterLostError, SchedulerLink
from autograder.grade.where.cluster.worker.course_bundle import CourseBundle
from autograder.grade.where.cluster.worker.host_client import HostEndedError
from autograder.grade.where.cluster.worker.worker_plugin import GradingPlugin
from autograder.grade.where.grading_job import Graders, GradingTerms, Job, JobResult
from autograder.grade.wire.limits import LONGEST_WAIT

FIRST_WORKER_SECONDS = 60.0  # at a scheduler that somebody else has started
NEXT_WORKER_SECONDS = 600.0  # when all are lost
SILENT_SECONDS = 240.0  # beyond what the submissions may take, before a worker that does not answer is given up


class ClusterGraders(Graders):
    """Grades on a cluster; a context manager.

    Args:
        link: to the scheduler.
        terms: what is the same for every job.
        jobs: how many submissions each worker grades at once; 0 takes one for each of its threads.
        note: called with a sentence on each worker that grades nothing.

    Attributes:
        plugin_type: what a worker gets.
    """

    plugin_type = GradingPlugin

    def __init__(self, link: SchedulerLink, terms: GradingTerms, jobs: int, note: Callable[[str], None]) -> None:
        self._link, self._terms, self._note = link, terms, note
        bundle = CourseBundle.of(terms)
        self._plugin = self.plugin_type(
            f"autograder-{bundle.name}", msgspec.msgpack.encode(bundle), bundle.level, bundle.versions, jobs
        )
        self._board = JobBoard()
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._tasks = GradingTasks(self._plugin.name, self._events)
        self._names: dict[str, str] = {}
        self._problems: dict[str, str] = {}
        self._heard: dict[str, float] = {}

    def __enter__(self) -> ClusterGraders:
        self._begin()
        try:
            self._await_first_worker()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._roster.stop()
        self._tasks.forget_all()
        with contextlib.suppress(Exception):  # nobody is left who would need it
            self._link.client.unregister_worker_plugin(self._plugin.name)

    def batches(self, jobs: Iterable[Job]) -> Iterator[list[JobResult]]:
        """Yields every job's result as soon as it is there; jobs are taken from the iterable only when a worker has room.

        Raises:
            ClusterLostError: no worker or no scheduler is left, and none comes.
        """
        waiting, is_exhausted = iter(jobs), False

        def new() -> Ticket | None:
            nonlocal is_exhausted
            job = next(waiting, None)
            is_exhausted = job is None
            return None if job is None else ticket_of(job)

        results: list[JobResult] = []
        while True:
            # New jobs before the results: the caller writes these to disk, and the workers should work during that time.
            while (pair := self._board.assign(new)) is not None:
                self._send(*pair)
            if results:
                yield results
            if is_exhausted and self._board.is_empty:
                return
            results = self._results()

    def _begin(self) -> None:
        with contextlib.suppress(Exception):  # a worker without this package; the roster says so of that worker
            self._link.client.register_plugin(self._plugin)
        self._roster = WorkerRoster(self._link.client, self._plugin, self._events)
        self._roster.start()
        self._idle_since, self._has_said_so = time.monotonic(), False

    def _await_first_worker(self) -> None:
        """Returns when a worker grades, and all that are there have reported."""
        until = time.monotonic() + FIRST_WORKER_SECONDS
        while not self._board.workers or self._roster.present - self._names.keys():
            self._results()
            is_complete = self._roster.present and self._roster.present <= self._names.keys()
            if is_complete and not self._board.workers:
                raise IsolationError(
                    f"no worker of the cluster can grade, so nothing was graded. {self._all_problems()}"
                )
            if not self._roster.present and time.monotonic() > until and not self._link.is_ours:
                raise ClusterError(
                    f"the scheduler at {self._link.address} has no workers. Start some with `dask worker {self._link.address}`"
                )
            if self._board.workers and time.monotonic() > until:
                return  # who comes later is welcome

    def _all_problems(self) -> str:
        return "; ".join(f"{self._names[worker]}: {problem}" for worker, problem in self._problems.items())

    def _send(self, ticket: Ticket, worker: str) -> None:
        try:
            self._tasks.send(self._link.client, ticket, worker)
            self._heard.setdefault(worker, time.monotonic())
        except Exception:  # noqa: BLE001 - the client was closed, or cannot send
            self._come_back()

    def _results(self) -> list[JobResult]:
        """Waits up to a second for news, and returns the results among them."""
        results: list[JobResult] = []
        with contextlib.suppress(queue.Empty):
            results += self._handle(self._events.get(timeout=1.0))
            while True:
                results += self._handle(self._events.get_nowait())
        self._give_up_silent_workers()
        self._check_that_workers_come()
        return results

    def _handle(self, event: Any) -> list[JobResult]:
        if isinstance(event, WorkerAnswer):
            return self._take(event)
        if isinstance(event, WorkerJoined):
            self._welcome(event)
        elif isinstance(event, WorkerLeft):
            self._heard.pop(event.worker, None)
            return self._lose(event.worker)
        elif isinstance(event, LinkLost) and event.client is self._link.client:
            self._come_back()
        return []

    def _welcome(self, event: WorkerJoined) -> None:
        name = self._names[event.worker] = f"{event.report.name} on {event.report.host}"
        if not event.report.problem:
            self._board.join(event.worker, event.report.slots)
            return
        self._problems[event.worker] = event.report.problem
        self._note(f"worker {name} gets no submission: {event.report.problem}")

    def _take(self, answer: WorkerAnswer) -> list[JobResult]:
        ticket, worker = answer.ticket, answer.worker
        if not self._tasks.take(answer) or not self._board.has(ticket, worker):
            return []  # of a worker that was given up: somebody else has the job by now
        self._heard[worker] = time.monotonic()
        try:
            result = answer.result(self._terms.sources[ticket.job.notebook])
        except (HostEndedError, KilledWorker):
            return [self._ended(ticket)] if self._board.lose_one(ticket, worker) else self._stand_aside(worker)
        except (asyncio.CancelledError, concurrent.futures.CancelledError):
            self._come_back()  # Dask cancels everything when the scheduler is lost
            return []
        except Exception as error:  # noqa: BLE001 - what a worker raises, or what cannot be read
            return self._without_grade(ticket, worker, f"{type(error).__name__}: {error}")
        if result.grade is None:
            return self._without_grade(ticket, worker, result.failure)
        self._board.finish(ticket, worker)
        name = self._names.get(worker, worker)
        return [msgspec.structs.replace(result, student=ticket.student, worker=name)]

    def _without_grade(self, ticket: Ticket, worker: str, reason: str) -> list[JobResult]:
        has_had_its_tries = self._board.give_up(ticket, worker)
        results = self._stand_aside(worker)
        if has_had_its_tries:
            results.append(
                JobResult(ticket.student, ticket.job.notebook, None, reason, self._names.get(worker, worker))
            )
        return results

    def _stand_aside(self, worker: str) -> list[JobResult]:
        if not self._board.is_failing(worker):
            return []
        self._note(
            f"worker {self._names.get(worker, worker)} failed several times in a row and gets no more submissions"
        )
        return self._retire(worker)

    def _retire(self, worker: str) -> list[JobResult]:
        with contextlib.suppress(Exception):
            self._link.client.retire_workers([worker], callback_timeout=10)
        self._forget(worker)
        self._board.take_back(worker)
        return []

    def _forget(self, worker: str) -> None:
        for ticket in self._board.on(worker):
            self._tasks.forget(ticket)

    def _lose(self, worker: str) -> list[JobResult]:
        self._forget(worker)
        return [self._ended(ticket) for ticket in self._board.lose(worker)]

    def _ended(self, ticket: Ticket) -> JobResult:
        reason = f"grading it ended the worker that ran it {ticket.losses} times, the last time with nothing beside it"
        return JobResult(
            ticket.student, ticket.job.notebook, unreadable(self._terms.sources[ticket.job.notebook], reason)
        )

    def _come_back(self) -> None:
        self._note(f"the scheduler at {self._link.address} does not answer; waiting for it")
        self._roster.stop()
        for worker in self._board.workers:
            self._forget(worker)
            self._board.take_back(worker)
        self._names.clear()
        self._heard.clear()
        self._link.reconnect()
        self._begin()

    def _give_up_silent_workers(self) -> None:
        most = 2 * LONGEST_WAIT * self._terms.limits.submission_seconds + SILENT_SECONDS
        for worker in self._board.workers:
            if not self._board.on(worker):
                self._heard.pop(worker, None)
            elif time.monotonic() - self._heard.get(worker, time.monotonic()) > most:
                self._note(
                    f"worker {self._names.get(worker, worker)} does not answer any more and gets no more submissions"
                )
                self._retire(worker)

    def _check_that_workers_come(self) -> None:
        if self._board.workers:
            self._idle_since, self._has_said_so = time.monotonic(), False
            return
        idle = time.monotonic() - self._idle_since
        if idle > FIRST_WORKER_SECONDS and not self._has_said_so:
            self._has_said_so = True
            self._note("no worker grades at the moment; waiting for one. Ctrl-C ends this, and what was graded is kept")
        if idle > NEXT_WORKER_SECONDS and not self._link.is_ours:  # of ours, a batch system may start some in an hour
            raise ClusterLostError(
                f"no worker is left at {self._link.address}; what was graded so far is kept. Start workers, then run the same "
                "command with --resume"
            )
