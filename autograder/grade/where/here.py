"""Several trusted processes, each with a warm server of its own, that grade what they are handed and keep nothing."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from autograder.grade.sandbox.launch import Launched
from autograder.grade.sandbox.walls import IsolationError, Level
from autograder.grade.submission.remote import Server
from autograder.grade.submission.result import Graded
from autograder.grade.submission.shared_process import OneProcess
from autograder.grade.submission.source import AssignmentSource
from autograder.grade.submission.submission_grader import Examiner
from autograder.grade.wire.limits import Limits
from autograder.view.scene.layout import load_igraph

MARGIN_SECONDS = 60  # for the trusted side's own work on one notebook
TRIES = 2


class Job(msgspec.Struct, frozen=True):
    """One notebook of one student: its bytes, and the other files that were handed in."""

    student: str
    notebook: str
    data: bytes
    files: dict[str, bytes]


class Done(msgspec.Struct, frozen=True):
    """What came of a job; `failure` says why the grader itself could not, and then `graded` is None."""

    student: str
    notebook: str
    graded: Graded | None
    failure: str = ""


class Terms(NamedTuple):
    """What is the same for every job."""

    sources: dict[str, AssignmentSource]
    level: Level
    limits: Limits
    seed: int
    one_process: bool


class _Lane:
    """One trusted process, and the job it is at."""

    def __init__(self, terms: Terms, launched: list[Launched]) -> None:
        self.terms, self.launched = terms, launched
        self.job: Job | None = None
        self.tries = 0
        self._start()

    def give(self, job: Job, tries: int = 1) -> None:
        self.job, self.tries = job, tries
        self.deadline = time.monotonic() + self.terms.limits.submission_seconds + MARGIN_SECONDS
        with contextlib.suppress(OSError):  # a process that has died is found when its answer is awaited
            self.pipe.send_bytes(msgspec.msgpack.encode(job))

    def answer(self) -> Done | None:
        """Returns the finished job; None where the process died and the job was begun anew by another."""
        assert self.job is not None
        job = self.job
        try:
            done = msgspec.msgpack.decode(self.pipe.recv_bytes(), type=Done)
        except (EOFError, OSError, msgspec.MsgspecError):
            return self._again(job)
        if not done.student:
            raise IsolationError(done.failure)
        self.job = None
        return done

    def _again(self, job: Job) -> Done | None:
        self.close()
        self._start()
        if self.tries < TRIES:
            self.give(job, self.tries + 1)
            return None
        self.job = None
        return Done(job.student, job.notebook, None, f"the grading process ended {TRIES} times over this submission")

    def overdue(self) -> bool:
        return self.job is not None and time.monotonic() > self.deadline

    def end(self) -> None:
        """Ends a process that takes too long; its pipe then reports the end."""
        self.process.kill()

    def close(self) -> None:
        self.pipe.close()
        self.process.join(timeout=10)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()

    def _start(self) -> None:
        if not self.terms.one_process:
            load_igraph()  # before the fork: each process would load it for its first picture
        self.pipe, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")  # PyTorch is loaded here already, and there is no thread yet
        self.process = context.Process(
            target=_examine, args=(self.pipe, theirs, self.terms, self.launched), daemon=True
        )
        self.process.start()
        theirs.close()
        if self.launched:
            self.launched.pop(0).hang_up()  # it is the new process's now


def grade_all(jobs: Iterable[Job], terms: Terms, lanes: int, launched: list[Launched]) -> Iterator[Done]:
    """Yields every job's outcome as it comes; jobs are taken from the iterable only when a process is free.

    Args:
        jobs: what to grade.
        terms: what is the same for every job.
        lanes: how many processes grade at once.
        launched: servers that were started beforehand; each new process takes the first, or starts its own.

    Raises:
        IsolationError: the servers do not start.
    """
    waiting = iter(jobs)
    busy: list[_Lane] = []
    free: list[_Lane] = []
    answers: list[Done | None] = []
    try:
        while True:
            # Before the answers go out: who takes them writes them down, and meanwhile the processes should have work.
            while len(busy) < lanes and (job := next(waiting, None)) is not None:
                busy.append(free.pop() if free else _Lane(terms, launched))
                busy[-1].give(job)
            yield from filter(None, answers)
            if not busy:
                return
            pipes: Any = {lane.pipe: lane for lane in busy}
            ready = [pipes[pipe] for pipe in multiprocessing.connection.wait(list(pipes), timeout=1.0)]
            answers = [lane.answer() for lane in ready]
            for lane in [lane for lane in ready if lane.job is None]:
                busy.remove(lane)
                free.append(lane)
            for lane in busy:
                if lane.overdue():
                    lane.end()
    finally:
        # A later lane holds a copy of an earlier one's pipe, so none is told to end before all of these are closed.
        for lane in [*busy, *free]:
            lane.pipe.close()
        for lane in [*busy, *free]:
            lane.close()


def _examine(main_end: Any, pipe: Any, terms: Terms, launched: list[Launched]) -> None:
    """The trusted process: grades until nobody hands it anything any more."""
    main_end.close()
    for other in launched[1:]:
        other.hang_up()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process, which then hangs up
    import torch

    torch.set_num_threads(1)
    with Server(terms.level, terms.limits, *launched[:1]) as server:
        grader = OneProcess(server, terms.limits) if terms.one_process else Examiner(server, terms.limits)
        while True:
            try:
                job = msgspec.msgpack.decode(pipe.recv_bytes(), type=Job)
            except (EOFError, OSError):
                break
            try:
                graded = grader.grade(terms.sources[job.notebook], job.data, job.files, terms.seed)
                done = Done(job.student, job.notebook, graded)
            except IsolationError as error:
                done = Done("", "", None, str(error))
            except Exception as error:  # noqa: BLE001 - the batch goes on, and the teacher reads what happened
                done = Done(job.student, job.notebook, None, f"the grader failed ({type(error).__name__}: {error})")
            with contextlib.suppress(
                OSError
            ):  # the main process was interrupted meanwhile: the next line finds that out
                pipe.send_bytes(msgspec.msgpack.encode(done))
    os._exit(0)
