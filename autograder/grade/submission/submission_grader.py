"""Grades one submission: reads it, runs it in fresh workers as its source's plan says, and returns one grade."""

from __future__ import annotations

import functools
import secrets
import time
from collections.abc import Callable

import msgspec
from nbformat import NotebookNode

from autograder.grade.submission import one_process
from autograder.grade.submission.align import align
from autograder.grade.submission.connection.server_client import ServerClient
from autograder.grade.submission.connection.worker_client import WorkerClient, WorkerEnded
from autograder.grade.submission.notebook_grade import NotebookGrade
from autograder.grade.submission.source_recordings import recordings_of
from autograder.grade.submission.submission_run import SubmissionRun, unreadable
from autograder.grade.submission.submitted.submitted_files import UnreadableSubmission
from autograder.grade.submission.submitted.untrusted_notebook import parse, submitted_language
from autograder.grade.submission.teacher.judging_plan import JudgingPlan, all_in_one_process, plan_of_cells
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.submission.two_processes import TwoProcesses
from autograder.grade.wire.limits import Limits
from autograder.locale.languages import speaking
from autograder.locale.translations import texts_in


class _Work(msgspec.Struct):
    """What is the same for all runs of one submission; they share its seconds."""

    source: AssignmentSource
    cells: list[NotebookNode]
    files: dict[str, bytes]
    seed: int
    plan: JudgingPlan
    seconds_left: float
    picture_seconds: float


class SubmissionGrader:
    """Grades submissions one after another, each in workers of its own."""

    def __init__(self, server: ServerClient, limits: Limits) -> None:
        self._server, self._limits = server, limits
        self._recordings: dict[str, bytes] = {}

    @functools.cached_property
    def _two_processes(self) -> TwoProcesses:
        return TwoProcesses(self._limits)

    def grade(
        self,
        source: AssignmentSource,
        data: bytes,
        files: dict[str, bytes],
        seed: int | None = None,
        plan: JudgingPlan | None = None,
        *,
        pictures: bool = False,
    ) -> NotebookGrade:
        """Returns the grade of a notebook; whatever is wrong with the notebook is part of the grade, not an error.

        Args:
            source: the teacher's notebook.
            data: the bytes of the submitted file.
            files: the other submitted files, by relative path.
            seed: from which the tests' inputs are drawn; None draws one that nobody can know. Tests in the submission's
                own process do not use it.
            plan: in which process each test is judged; None takes what the source's cells say.
            pictures: whether wrong answers are recorded, for the feedback.

        Raises:
            IsolationError: the server does not start.
        """
        start = time.monotonic()
        plan = plan_of_cells(source) if plan is None else plan
        try:
            cells = parse(data)
        except UnreadableSubmission as error:
            return unreadable(source, str(error))
        seed = secrets.randbits(63) if seed is None else seed
        seconds, for_pictures = self._limits.submission_seconds, self._limits.picture_seconds if pictures else 0.0
        work = _Work(source, cells, files | source.files, seed, plan, seconds, for_pictures)
        spoken = submitted_language(data)
        texts_in(spoken)  # before the tests, in which nothing is loaded that is not the teacher's
        with speaking(spoken):
            run = self._run(work)
            for name, reason in plan.nobody.items():
                run.leave_to_a_person(name, reason)
            return run.grade(time.monotonic() - start)

    def _run(self, work: _Work) -> SubmissionRun:
        beside = {cell.id for cell in work.source.tests} <= work.plan.elsewhere
        if beside and not one_process.shows_hidden_text(work.source, work.plan):
            return self._in_one_process(work, work.plan)
        # What the learner's own cells print comes from a process that no hidden test was ever in.
        run = self._in_two_processes(work)
        if run.leans_on:
            run.doubt(self._in_one_process(work, all_in_one_process(work.source)))
        if work.plan.one:
            run.take_over(self._in_one_process(work, work.plan), work.plan.one)
        return run

    def _in_two_processes(self, work: _Work) -> SubmissionRun:
        """Runs the answers in a worker and the tests here.

        Where a call wrote into the arguments of a test whose model answer writes into none, everything runs again with such
        writes let through, and the test counts only if it passes both times.
        """
        run = self._once_in_two_processes(work, work.plan)
        unexpected = frozenset(run.wrote_inputs & work.plan.keeps_inputs)
        if unexpected:
            freely = msgspec.structs.replace(work.plan, keeps_inputs=frozenset())
            run.take_lower(self._once_in_two_processes(work, freely), unexpected)
        return run

    def _once_in_two_processes(self, work: _Work, plan: JudgingPlan) -> SubmissionRun:
        tests, seconds = self._two_processes, work.picture_seconds
        return self._in_worker(work, lambda run, worker: tests.run_cells(run, worker, work.seed, plan, seconds))

    def _in_one_process(self, work: _Work, plan: JudgingPlan) -> SubmissionRun:
        return self._in_worker(work, lambda run, worker: one_process.run_cells(run, worker, plan))

    def _in_worker(self, work: _Work, run_cells: Callable[[SubmissionRun, WorkerClient], None]) -> SubmissionRun:
        run = SubmissionRun(work.source, align(work.source, work.cells), _modules(work))
        try:
            recordings = self._demonstrations(work.source)
            with self._server.worker(work.files, work.source.late_modules, work.seconds_left, recordings) as worker:
                run_cells(run, worker)
                work.seconds_left = worker.seconds_left
        except WorkerEnded as error:
            run.ended = run.ended or str(error)  # there was no process to run the cells in
        return run

    def _demonstrations(self, source: AssignmentSource) -> bytes:
        if source.is_variant:
            return b""  # it is used once, and the submission makes its own
        if source.digest not in self._recordings:
            self._recordings[source.digest] = recordings_of(source, self._server)
        return self._recordings[source.digest]


def _modules(work: _Work) -> list[str]:
    """Returns the text of the submission's own files of Python, which its cells may import or run."""
    own = [work.files[name] for name in sorted(work.files.keys() - work.source.files.keys()) if name.endswith(".py")]
    return [data.decode("utf-8", "replace") for data in own]
