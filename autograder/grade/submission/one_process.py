"""Tests in the submission's own process, as nbgrader runs them: for tests that need more than what can be sent.

Nothing reaches out of the process, but a test shares it with the code that it judges: a submission can forge the points of
these tests, never anybody else's, and can read their text. `SECURITY.md` says when that is good enough.
"""

from __future__ import annotations

from nbformat import NotebookNode, v4
from nbgrader import utils

from autograder.grade.submission.judging_plan import JudgingPlan
from autograder.grade.submission.notebook_grade import CellGrade
from autograder.grade.submission.source import AssignmentSource
from autograder.grade.submission.submission_run import SubmissionRun
from autograder.grade.submission.worker_client import WorkerClient

COVERED = "(this test shares its process with hidden tests, so what it printed is not shown)\n"


def run_cells(run: SubmissionRun, worker: WorkerClient, plan: JudgingPlan) -> None:
    """Runs the learner's cells and the plan's tests in order, with earlier tests whose names these use.

    Points are read from the outputs, by nbgrader's own rule.
    """
    beside = run.source.with_binders(plan.one)
    hidden = shows_hidden_text(run.source, plan)
    for cell, own, _ in run.cells:
        if own is not None and own.kind == "test":
            run.run_cell(cell, worker, instead=None if own.id in beside else run.source.for_learners(own))
            if own.id in plan.one and not run.ended:
                run.grades[own.id] = _grade_from_outputs(cell, hidden=hidden)
                if hidden and not own.hides:
                    _cover_outputs(cell)
        elif cell.cell_type == "code":
            run.run_cell(cell, worker)


def shows_hidden_text(source: AssignmentSource, plan: JudgingPlan) -> bool:
    """Returns whether a submission can read a hidden test while it runs beside the plan's tests."""
    return any(source.by_id[name].hides for name in source.with_binders(plan.one))


def _cover_outputs(cell: NotebookNode) -> None:
    """Replaces the outputs of a test that shows all of its text, but ran where a hidden one could be read."""
    errors = [output for output in cell.outputs if output.output_type == "error"]
    cell.outputs = [v4.new_output("stream", name="stdout", text=COVERED)] if cell.outputs else []
    if errors:
        reason = "This test did not pass."
        cell.outputs += [v4.new_output("error", ename="TestFailed", evalue=reason, traceback=[reason])]


def _grade_from_outputs(cell: NotebookNode, *, hidden: bool) -> CellGrade:
    errors = [output for output in cell.outputs if output.output_type == "error"]
    try:
        points, most = utils.determine_grade(cell)
        reason = (
            (errors[0].evalue or errors[0].ename)
            if errors
            else ""
            if points == most
            else "text on stderr, or partial credit"
        )
    except ValueError as error:  # partial credit above the maximum, which stops nbgrader's batch (0.9.6)
        points, most, reason = 0.0, float(cell.metadata.nbgrader.points), str(error)
    status = "correct" if points == most else "partly" if points else "incorrect"
    if any(error.ename == "CellTimeoutError" for error in errors):
        status = "timed out"
    return CellGrade(status=status, points=points, max_points=most, reason=reason, hidden=hidden, process="one")  # type: ignore[arg-type]
