"""Grades on this machine: several trusted processes, each with a warm server, that keep nothing between jobs."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import platform
import resource
import signal
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import psutil

from autograder.grade.sandbox.isolation.isolation_level import IsolationError
from autograder.grade.sandbox.launch import ServerPool, ServerProcess, processor_shares
from autograder.grade.sandbox.warmup import import_igraph
from autograder.grade.submission.connection.server_client import ServerClient
from autograder.grade.submission.submission_grader import SubmissionGrader
from autograder.grade.submission.submission_run import unreadable
from autograder.grade.where.grading_job import Graders, GradingTerms, Job, JobResult
from autograder.grade.where.machine_facts import machine_kind
from autograder.grade.wire.limits import LONGEST_WAIT, MEBIBYTE

MARGIN_SECONDS = 60  # on the clock, for starting a server and writing what was found
TRUSTED_SECONDS = 10  # of processor time that a grader process may use for one job, beyond what the submission has
TRUSTED_BYTES = 2048 * MEBIBYTE  # that it may add to its memory, or twice as much as a submission has if that is more
TRIES = 2


class _GraderProcess:
    """One trusted process, and the job that it is working on."""

    def __init__(self, terms: GradingTerms, servers: ServerPool, processors: frozenset[int], folder: str) -> None:
        self.terms, self.servers, self.processors, self.folder = terms, servers, processors, folder
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
        arguments = (self.pipe, theirs, self.terms, self.servers, server, self.processors, self.folder)
        self.process = context.Process(target=_serve_jobs, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        if server is not None:
            server.disconnect()  # the new process has its own copy


class GraderProcesses(Graders):
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
        self._files = tempfile.TemporaryDirectory(prefix="autograder-", ignore_cleanup_errors=True)

    def __enter__(self) -> GraderProcesses:
        os.chmod(self._files.name, 0o711)  # a second user's folder lies in it
        return self

    def __exit__(self, *_: object) -> None:
        # A later process holds a copy of an earlier one's pipe, so none ends before all of these are closed.
        for grader in [*self._busy, *self._free]:
            grader.pipe.close()
        for grader in [*self._busy, *self._free]:
            grader.close()
        self._files.cleanup()

    def batches(self, jobs: Iterable[Job]) -> Iterator[list[JobResult]]:
        """Yields every job's result as soon as it is there; jobs are taken from the iterable only when a process is free.

        Raises:
            IsolationError: the servers do not start.
        """
        waiting = iter(jobs)
        results: list[JobResult] = []
        while True:
            # New jobs before the results: the caller writes these to disk, and the processes should work during that time.
            while self.has_room and (job := next(waiting, None)) is not None:
                self.give(job)
            if results:
                yield results
            if not self._busy:
                return
            results = self.results()

    @property
    def has_room(self) -> bool:
        """Whether a process is free for another job."""
        return len(self._busy) < self._count

    @property
    def is_idle(self) -> bool:
        """Whether no process works on a job."""
        return not self._busy

    def give(self, job: Job) -> None:
        """Begins a job; there has to be room.

        Raises:
            IsolationError: the servers do not start.
        """
        self._busy.append(self._free.pop() if self._free else self._new_process())
        self._busy[-1].give(job)

    def results(self, or_until_readable: socket.socket | None = None) -> list[JobResult]:
        """Waits up to a second, or until a socket can be read, and returns the results that are there."""
        pipes: Any = {grader.pipe: grader for grader in self._busy}
        beside = [] if or_until_readable is None else [or_until_readable]
        ready = multiprocessing.connection.wait([*pipes, *beside], timeout=1.0)
        asked = [pipes[pipe] for pipe in ready if pipe in pipes]
        results = [grader.result() for grader in asked]
        for grader in [grader for grader in asked if grader.job is None]:
            self._busy.remove(grader)
            self._free.append(grader)
        for grader in self._busy:
            grader.end_overdue()
        return [
            msgspec.structs.replace(result, worker=platform.node(), machine=machine_kind())
            for result in results
            if result is not None
        ]

    def _new_process(self) -> _GraderProcess:
        return _GraderProcess(self._terms, self._servers, self._shares[len(self._busy)], self._files.name)


def _serve_jobs(
    main_end: Any,
    pipe: Any,
    terms: GradingTerms,
    servers: ServerPool,
    own: ServerProcess | None,
    processors: frozenset[int],
    folder: str,
) -> None:
    """The trusted process: grades until the main process closes the pipe, and keeps its temporary files in the folder."""
    main_end.close()
    servers.disconnect()
    tempfile.tempdir = folder  # the main process deletes it: this one may be killed
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
        source = terms.sources[job.notebook]
        source = source if job.variant is None else source.variant(job.variant)
        grade = grader.grade(source, job.data, job.files, terms.seed, job.plan, pictures=job.pictures)
        return JobResult(job.student, job.notebook, grade)
    except IsolationError as error:
        return JobResult("", "", None, str(error))
    except MemoryError:
        reason = "grading it took more memory than the grader has for one submission"
        return JobResult(job.student, job.notebook, unreadable(terms.sources[job.notebook], reason))
    except Exception as error:  # noqa: BLE001 - the batch continues, and the teacher reads what happened
        return JobResult(job.student, job.notebook, None, f"the grader failed ({type(error).__name__}: {error})")
