"""The grader of one submission: reads it, runs it in new processes according to its source's plan, and returns one grade.

Tests that need more than plain data run in the submission's own process, as nbgrader runs them. Everything else is
isolated from that process, but such a test shares it with the code that it judges: a submission can forge the points of
these tests, though not those of another submission, and can read their text. `SECURITY.md` describes when this is
acceptable.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace

from nbformat import NotebookNode, v4

from autograder.grade.sandbox.shell import make_shell
from autograder.grade.submission.align import align
from autograder.grade.submission.cell_planner import CellPlanner
from autograder.grade.submission.notebook_grade import NotebookGrade, Status
from autograder.grade.submission.outside_run import OutsideRun, SubmissionInputs
from autograder.grade.submission.server_client import ServerClient, WorkerClient, WorkerEnded
from autograder.grade.submission.submission_run import SubmissionRun, graded_test, needs_manual_grade, unreadable
from autograder.grade.submission.submitted_files import UnreadableSubmission, parse, submitted_language
from autograder.grade.submission.teacher.source import AssignmentSource, GradingPlan
from autograder.grade.submission.teacher.source_cells import SourceCell
from autograder.grade.wire import messages
from autograder.graded import being_graded
from autograder.locale.languages import use_language
from autograder.locale.messages import Message
from autograder.locale.translations import texts_in, translatable, translated

FAILURES: dict[str, Status] = {"CellTimeoutError": "timed out", "NotAttempted": "not attempted"}
"""The result of a test that ended with an error of this type."""
COVERED = translatable("(this test shares its process with hidden tests, so what it printed is not shown)")


def run_in_process(run: SubmissionRun, worker: WorkerClient, tests: Collection[str]) -> None:
    """Run the student's cells and the tests in order, with earlier tests whose names these use.

    The process itself reports the error and the last value of a test; a submission can forge both.
    """
    required_tests = run.source.with_required_tests(tests)
    hidden = shows_hidden_text(run.source, tests)
    cells = [(cell, source_cell) for cell, source_cell in run.cells if cell.cell_type == "code"]
    texts = [_text(run.source, cell, source_cell, required_tests) for cell, source_cell in cells]
    answers = worker.answers([messages.RunCell(text) for text in texts if text.strip()])
    for (cell, source_cell), text in zip(cells, texts, strict=True):
        answer = run.next_cell(cell, text, answers, worker)
        if source_cell is not None and source_cell.kind == "test" and source_cell.id in tests and answer is not None:
            kind, message = answer.error or ("", "")
            failure = FAILURES.get(kind, "incorrect") if kind else None
            points, reason = answer.points, message or kind
            run.grades[source_cell.id] = graded_test(source_cell, "in process", points, reason, failure, hidden=hidden)
            if hidden and not source_cell.hides:
                _cover_outputs(cell)


def _text(
    source: AssignmentSource, cell: NotebookNode, source_cell: SourceCell | None, required_tests: Collection[str]
) -> str:
    if source_cell is None or source_cell.kind != "test":
        return cell.source
    return source_cell.text if source_cell.id in required_tests else source.for_students(source_cell)


def shows_hidden_text(source: AssignmentSource, tests: Collection[str]) -> bool:
    """Return whether a submission can read a hidden test while it runs in one process with these tests."""
    return any(source.by_id[name].hides for name in source.with_required_tests(tests))


def _cover_outputs(cell: NotebookNode) -> None:
    """Replace the outputs of a fully visible test that ran in a process where a hidden one could be read."""
    errors = [output for output in cell.outputs if output.output_type == "error"]
    cell.outputs = [v4.new_output("stream", name="stdout", text=f"{translated(COVERED)}\n")] if cell.outputs else []
    if errors:
        reason = Message("test.did_not_pass|This test did not pass.")
        cell.outputs += [v4.new_output("error", ename="TestFailed", evalue=reason, traceback=[reason.text])]


DECORATOR = "observed"


def recordings_of(source: AssignmentSource, server: ServerClient) -> bytes:
    """Return the recordings of the demonstrations in a source when it runs as handed out; b"" if it does not have any.

    The worker runs the text that every student has, without tests, so the recordings contain no secrets, and a
    submission cannot change the recordings for another. It raises IsolationError if the server does not start.
    """
    cells = [cell for cell in source.cells if cell.cell.cell_type == "code"]
    if not any(DECORATOR in cell.text for cell in cells if cell.kind != "test"):
        return b""
    texts = [source.for_students(cell) if cell.kind == "test" else cell.text for cell in cells]
    requests: list[messages.Request] = [messages.RunCell(text) for text in texts if text.strip()]
    try:
        with server.worker(source.student_files | source.files) as worker:
            # A cell of the teacher that fails here also fails for every student.
            *_, recorded = worker.answers([*requests, messages.ListRecordings()])
            return recorded.data if isinstance(recorded, messages.Recorded) else b""
    except WorkerEnded:
        return b""  # every submission then records them itself


class SubmissionGrader:
    """Grades submissions one after another, each in new processes, which the servers of workers and of judges fork."""

    def __init__(self, server: ServerClient, judges: ServerClient, planner: CellPlanner) -> None:
        self._server, self._judges, self._planner = server, judges, planner
        self._shell = make_shell(server.limits.output_bytes)
        self._recordings: dict[str, bytes] = {}

    def grade(
        self,
        source: AssignmentSource,
        data: bytes,
        files: dict[str, bytes],
        seed: int,
        plan: GradingPlan,
        pictures: bool,
    ) -> NotebookGrade:
        """Return the grade of a notebook; a fault of the notebook is part of the grade, not an error.

        The other submitted files are given by relative path. The inputs of tests are drawn from the seed, except those
        of tests in process. With `pictures`, wrong answers are recorded for the feedback. It raises IsolationError if a
        server does not start.
        """
        start = time.monotonic()
        try:
            cells = parse(data)
        except UnreadableSubmission as error:
            return unreadable(source, str(error))
        modules = [files[name] for name in sorted(files.keys() - source.files.keys()) if name.endswith(".py")]
        work = SubmissionInputs(
            source=source,
            cells=cells,
            files=files | source.files,
            own_modules=tuple(text.decode("utf-8", "replace") for text in modules),
            seed=seed,
            plan=plan,
            pictures=pictures,
        )
        language = submitted_language(data)
        texts_in(language)
        with use_language(language), being_graded():
            run = self._run(work)
            for name, reason in work.plan.nobody.items():
                run.grades[name] = needs_manual_grade(source.by_id[name], reason, hidden=True)
            return run.grade(time.monotonic() - start, any_prediction=work.plan.any_prediction)

    def _run(self, work: SubmissionInputs) -> SubmissionRun:
        source, tests = work.source, work.plan.in_process(work.source)
        seconds = self._server.limits.submission_seconds
        everything = {cell.id for cell in source.tests} <= tests | work.plan.nobody.keys()
        if everything and not shows_hidden_text(source, tests):
            return self._in_worker(work, seconds, lambda run, worker: run_in_process(run, worker, tests))[0]
        # The outputs of the student's own cells come from a process without hidden tests.
        plans = self._planner.plans(source, work.seed)
        work = replace(work, plan=work.plan.with_unplanned(plans))

        def outside(run: SubmissionRun, worker: WorkerClient) -> None:
            OutsideRun(work, plans, run, worker, self._shell, self._judges).run_cells()

        run, seconds = self._in_worker(work, seconds, outside)
        if tests:
            inside, _ = self._in_worker(work, seconds, lambda run, worker: run_in_process(run, worker, tests))
            run.merge_from(inside, tests)
        return run

    def _in_worker(
        self, work: SubmissionInputs, seconds: float, run_cells: Callable[[SubmissionRun, WorkerClient], None]
    ) -> tuple[SubmissionRun, float]:
        """Return the run of a submission in a new worker, and the rest of the submission's time in seconds."""
        run = SubmissionRun(work.source, align(work.source, work.cells))
        recordings = self._demonstrations(work.source)
        try:
            with self._server.worker(work.files, seconds, recordings=recordings) as worker:
                run_cells(run, worker)
                seconds = worker.seconds_left
        except WorkerEnded as error:
            run.ended = run.ended or str(error)  # there was no process to run the cells in
        return run, seconds

    def _demonstrations(self, source: AssignmentSource) -> bytes:
        if source.is_variant:
            return b""  # the source is used once, and the submission makes its own recordings
        if source.digest not in self._recordings:
            self._recordings[source.digest] = recordings_of(source, self._server)
        return self._recordings[source.digest]
