"""Grades on this machine: several trusted processes, each with a warm server, that keep nothing between jobs."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import resource
import signal
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import psutil

from autograder.grade.sandbox.isolation.isolation_level import IsolationError, IsolationLevel
from autograder.grade.sandbox.launch import ServerPool, ServerProcess, processor_shares
from autograder.grade.sandbox.warmup import import_igraph
from autograder.grade.submission.judging_plan import JudgingPlan
from autograder.grade.submission.notebook_grade import NotebookGrade
from autograder.grade.submission.server_client import ServerClient
from autograder.grade.submission.source import AssignmentSource
from autograder.grade.submission.submission_grader import SubmissionGrader
from autograder.grade.submission.submission_run import unreadable
from autograder.grade.wire.limits import LONGEST_WAIT, MEBIBYTE, Limits

MARGIN_SECONDS = 60  # on the clock, for starting a server and writing what was found
TRUSTED_SECONDS = 10  # of processor time that a grader process may use for one job, beyond what the submission has
TRUSTED_BYTES = 2048 * MEBIBYTE  # that it may add to its memory, or twice as much as a submission has if that is more
TRIES = 2


class Job(msgspec.Struct, frozen=True):
    """One notebook of one student: its bytes, the other files that were submitted, and how its tests are judged."""

    student: str
    notebook: str
    data: bytes
    files: dict[str, bytes]
    plan: JudgingPlan = JudgingPlan()


class JobResult(msgspec.Struct, frozen=True):
    """The grade of a job's notebook. If the grader itself failed, `failure` says why, and `grade` is None."""

    student: str
    notebook: str
    grade: NotebookGrade | None
    failure: str = ""


class GradingTerms(NamedTuple):
    """What is the same for every job.

    Attributes:
        sources: the teacher's notebooks, by name.
        level: how submissions are isolated.
        limits: what one submission may use.
        seed: from which inputs are drawn.
    """

    sources: dict[str, AssignmentSource]
    level: IsolationLevel
    limits: Limits
    seed: int


class _GraderProcess:
    """One trusted process, and the job that it is working on."""

    def __init__(self, terms: GradingTerms, servers: ServerPool, processors: frozenset[int]) -> None:
        self.terms, self.servers, self.processors = terms, servers, processors
        self.job: Job | None = None
        self.tries = 0
        self._start()

    def give(self, job: Job, tries: int = 1) -> None:
        self.job, self.tries = job, tries
        self.overdue = ""
        self.deadline = time.monotonic() + LONGEST_WAIT * self.terms.limits.submission_seconds + MARGIN_SECONDS
        self.processor_deadline = self._processor_seconds() + self.terms.limits.submission_seconds + TRUSTED_SECONDS
        with contextlib.suppress(OSError):  # a process that has died is noticed when its result is read
            self.pipe.send_bytes(msgspec.msgpack.encode(job))

    def result(self) -> JobResult | None:
        """Returns the job's result; None if the process died and a new one has begun the job again."""
        assert self.job is not None
        job = self.job
        try:
            result = msgspec.msgpack.decode(self.pipe.recv_bytes(), type=JobResult)
        except (EOFError, OSError, msgspec.MsgspecError):
            return self._try_again(job)
        if not result.student:
            raise IsolationError(result.failure)
        self.job = None
        return result

    def _try_again(self, job: Job) -> JobResult | None:
        self.close()
        self._start()
        if self.overdue:
            self.job = None
            return JobResult(job.student, job.notebook, unreadable(self.terms.sources[job.notebook], self.overdue))
        if self.tries < TRIES:
            self.give(job, self.tries + 1)
            return None
        self.job = None
        return JobResult(
            job.student, job.notebook, None, f"the grading process ended {TRIES} times over this submission"
        )

    def end_overdue(self) -> None:
        """Ends a process that takes too long over a job; its pipe then reports the end."""
        is_late = time.monotonic() > self.deadline
        if self.job is not None and (is_late or self._processor_seconds() > self.processor_deadline):
            self.overdue = f"grading it took more than {self.terms.limits.submission_seconds:g} seconds"
            self.process.kill()

    def _processor_seconds(self) -> float:
        try:
            times = psutil.Process(self.process.pid).cpu_times()
        except psutil.Error:
            return 0.0
        return float(times.user + times.system)

    def close(self) -> None:
        self.pipe.close()
        self.process.join(timeout=10)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()

    def _start(self) -> None:
        import_igraph()  # before the fork: otherwise each process imports it for its first picture
        self.pipe, theirs = multiprocessing.Pipe()
        server = self.servers.take()
        context = multiprocessing.get_context("fork")  # PyTorch is imported already, and there is no thread yet
        arguments = (self.pipe, theirs, self.terms, self.servers, server, self.processors)
        self.process = context.Process(target=_serve_jobs, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        if server is not None:
            server.disconnect()  # the new process has its own copy


class GraderProcesses:
    """The processes that grade; a context manager. They are started when they are needed, and stay for the next jobs.

    Args:
        terms: what is the same for every job.
        count: how many grade at once.
        servers: each new process takes one, or starts its own if there is none left. No job, no server.
    """

    def __init__(self, terms: GradingTerms, count: int, servers: ServerPool) -> None:
        self._terms, self._count, self._servers = terms, count, servers
        self._shares = processor_shares(count)
        self._busy: list[_GraderProcess] = []
        self._free: list[_GraderProcess] = []

    def __enter__(self) -> GraderProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        # A later process holds a copy of an earlier one's pipe, so none ends before all of these are closed.
        for grader in [*self._busy, *self._free]:
            grader.pipe.close()
        for grader in [*self._busy, *self._free]:
            grader.close()

    def grade(self, jobs: Iterable[Job]) -> Iterator[JobResult]:
        """Yields every job's result as soon as it is there; jobs are taken from the iterable only when a process is free.

        Raises:
            IsolationError: the servers do not start.
        """
        waiting = iter(jobs)
        results: list[JobResult | None] = []
        while True:
            # New jobs before the results: the caller writes each result to disk, and the processes should work during that time.
            while len(self._busy) < self._count and (job := next(waiting, None)) is not None:
                self._busy.append(self._free.pop() if self._free else self._new_process())
                self._busy[-1].give(job)
            yield from filter(None, results)
            if not self._busy:
                return
            results = self._wait()

    def _new_process(self) -> _GraderProcess:
        return _GraderProcess(self._terms, self._servers, self._shares[len(self._busy)])

    def _wait(self) -> list[JobResult | None]:
        pipes: Any = {grader.pipe: grader for grader in self._busy}
        ready = [pipes[pipe] for pipe in multiprocessing.connection.wait(list(pipes), timeout=1.0)]
        results = [grader.result() for grader in ready]
        for grader in [grader for grader in ready if grader.job is None]:
            self._busy.remove(grader)
            self._free.append(grader)
        for grader in self._busy:
            grader.end_overdue()
        return results


def _serve_jobs(
    main_end: Any,
    pipe: Any,
    terms: GradingTerms,
    servers: ServerPool,
    own: ServerProcess | None,
    processors: frozenset[int],
) -> None:
    """The trusted process: grades until the main process closes the pipe."""
    main_end.close()
    servers.disconnect()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process, which then closes the pipe
    import torch

    torch.set_num_threads(1)
    _limit_memory(max(TRUSTED_BYTES, 2 * terms.limits.memory_bytes))
    with ServerClient(terms.level, terms.limits, own, processors) as server:
        grader = SubmissionGrader(server, terms.limits)
        while True:
            try:
                job = msgspec.msgpack.decode(pipe.recv_bytes(), type=Job)
            except (EOFError, OSError):
                break
            result = _grade(grader, terms, job)
            with contextlib.suppress(OSError):  # the main process was interrupted: the next receive finds that out
                pipe.send_bytes(msgspec.msgpack.encode(result))
    os._exit(0)


def _limit_memory(more: int) -> None:
    """Makes this process fail to get memory, which ends one test or one grade, before the machine has none left."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    wanted = psutil.Process().memory_info().vms + more
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _grade(grader: SubmissionGrader, terms: GradingTerms, job: Job) -> JobResult:
    try:
        grade = grader.grade(terms.sources[job.notebook], job.data, job.files, terms.seed, job.plan)
        return JobResult(job.student, job.notebook, grade)
    except IsolationError as error:
        return JobResult("", "", None, str(error))
    except MemoryError:
        reason = "grading it took more memory than the grader has for one submission"
        return JobResult(job.student, job.notebook, unreadable(terms.sources[job.notebook], reason))
    except Exception as error:  # noqa: BLE001 - the batch continues, and the teacher reads what happened
        return JobResult(job.student, job.notebook, None, f"the grader failed ({type(error).__name__}: {error})")
