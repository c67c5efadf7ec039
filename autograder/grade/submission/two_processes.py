"""The default way: answers run in the worker, tests in this process, from the text of the teacher's source notebook."""

from __future__ import annotations

import nbformat
from nbformat import NotebookNode

from autograder.grade.sandbox.shell import make_shell
from autograder.grade.submission.connection.worker_client import WorkerClient
from autograder.grade.submission.submission_run import SubmissionRun
from autograder.grade.submission.teacher.judging_plan import JudgingPlan
from autograder.grade.submission.teacher.source import SourceCell
from autograder.grade.submission.trusted.remote_names import RemoteNames
from autograder.grade.submission.trusted.test_runner import SubmissionTests, TestRunner
from autograder.grade.wire.limits import Limits


class TwoProcesses:
    """Runs the tests in this process, which must be trusted, in its main thread; one for a process."""

    def __init__(self, limits: Limits) -> None:
        self._tests = TestRunner(make_shell(limits.output_bytes), limits)

    def run_cells(
        self, run: SubmissionRun, worker: WorkerClient, seed: int, plan: JudgingPlan, picture_seconds: float
    ) -> None:
        """Runs the learner's cells in the worker and the tests here, except those that the plan judges elsewhere.

        Args:
            run: gets the grades, the outputs, and which tests had their arguments written into.
            worker: a fresh one.
            seed: from which the tests' inputs are drawn.
            plan: which tests run here, and which of them keep the arguments that they made.
            picture_seconds: for recording wrong answers.
        """
        names = RemoteNames(worker, run.source.facts, picture_seconds=picture_seconds)
        for text in run.modules:
            names.add_cell(text)
        with self._tests.for_submission(run.source, names, seed) as tests:
            for cell, own, _ in run.cells:
                if own is not None:
                    tests.reach(own)
                if own is not None and own.kind == "test":
                    run.run_cell(cell, worker, instead=run.source.for_learners(own))
                    if own.id not in plan.elsewhere:
                        _test(run, tests, cell, own, own.id in plan.keeps_inputs)
                elif cell.cell_type == "code":
                    run.run_cell(cell, worker)
                    names.add_cell(cell.source)


def _test(run: SubmissionRun, tests: SubmissionTests, cell: NotebookNode, own: SourceCell, keep_inputs: bool) -> None:
    result = tests.run(own, run.count, keep_inputs=keep_inputs)
    cell.outputs = [nbformat.from_dict(output) for output in result.outputs]
    run.grades[own.id] = result.grade
    if result.wrote_inputs:
        run.wrote_inputs.add(own.id)
    if result.leans_on:
        run.leans_on[own.id] = result.leans_on
