"""The default mode: answers run in the worker, tests in this process, from the text of the teacher's source notebook."""

from __future__ import annotations

import secrets

import nbformat
from nbformat import NotebookNode

from autograder.grade.sandbox.shell import make_shell
from autograder.grade.submission.remote_names import RemoteNames
from autograder.grade.submission.server_client import ServerClient
from autograder.grade.submission.source import SourceCell
from autograder.grade.submission.submission_grader import SubmissionGrader
from autograder.grade.submission.submission_run import SubmissionRun
from autograder.grade.submission.trusted.test_runner import SubmissionTests, TestRunner
from autograder.grade.submission.worker_client import WorkerClient
from autograder.grade.wire.limits import Limits


class TrustedProcessGrader(SubmissionGrader):
    """Runs the tests in this process, which must be trusted, in its main thread; one for a process."""

    def __init__(self, server: ServerClient, limits: Limits) -> None:
        super().__init__(server, limits)
        self._tests = TestRunner(make_shell(limits.output_bytes), limits)

    def run_cells(self, run: SubmissionRun, worker: WorkerClient, seed: int | None) -> None:
        """Runs the learner's cells in the worker and the tests here."""
        names = RemoteNames(worker, run.source.facts)
        seed = secrets.randbits(63) if seed is None else seed
        with self._tests.for_submission(run.source, names, seed) as tests:
            for cell, own, _ in run.cells:
                if cell.cell_type == "code":
                    _run_or_test(run, worker, names, tests, cell, own)


def _run_or_test(
    run: SubmissionRun,
    worker: WorkerClient,
    names: RemoteNames,
    tests: SubmissionTests,
    cell: NotebookNode,
    own: SourceCell | None,
) -> None:
    if own is not None:
        tests.reach(own)
    if own is None or own.kind != "test":
        run.run_cell(cell, worker)
        names.add_cell(cell.source)
        return
    run.run_cell(cell, worker, instead=run.source.for_learners(own))
    result = tests.run(own, run.count)
    cell.outputs = [nbformat.from_dict(output) for output in result.outputs]
    run.grades[own.id] = result.grade
    cell.metadata["autograder"] = {"status": result.grade.status, "hidden": result.grade.hidden}
