"""Tests in the submission's own process, as nbgrader runs them: for tests that need more than what can be sent.

Nothing reaches out of the process, but a test shares it with the code that it judges: a submission can forge the points of
these tests, never anybody else's, and can read their text. `SECURITY.md` says when that is good enough.
"""

from __future__ import annotations

from nbformat import NotebookNode, v4
from nbgrader import utils

from autograder.grade.submission.connection.worker_client import WorkerClient
from autograder.grade.submission.notebook_grade import CellGrade
from autograder.grade.submission.submission_run import SubmissionRun
from autograder.grade.submission.teacher.judging_plan import JudgingPlan
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.locale.translations import in_english, translatable, translated

STDERR = translatable("text on stderr, for which nbgrader gives no points")
COVERED = translatable("(this test shares its process with hidden tests, so what it printed is not shown)")


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
    cell.outputs = [v4.new_output("stream", name="stdout", text=f"{translated(COVERED)}\n")] if cell.outputs else []
    if errors:
        reason = in_english("This test did not pass.")
        cell.outputs += [v4.new_output("error", ename="TestFailed", evalue=reason, traceback=[reason])]


def _grade_from_outputs(cell: NotebookNode, *, hidden: bool) -> CellGrade:
    errors = [output for output in cell.outputs if output.output_type == "error"]
    try:
        points, most = utils.determine_grade(cell)
        reason = "" if points == most else _reason(cell, errors)
    except ValueError as error:  # partial credit above the maximum, which stops nbgrader's batch (0.9.6)
        points, most, reason = 0.0, float(cell.metadata.nbgrader.points), str(error)
    status = "correct" if points == most else "partly" if points else "incorrect"
    if any(error.ename == "CellTimeoutError" for error in errors):
        status = "timed out"
    return CellGrade(status=status, points=points, max_points=most, reason=reason, hidden=hidden, process="one")  # type: ignore[arg-type]


def _reason(cell: NotebookNode, errors: list[NotebookNode]) -> str:
    if errors:
        return errors[0].evalue or errors[0].ename
    warned = any(output.output_type == "stream" and output.name == "stderr" for output in cell.outputs)
    return in_english(STDERR if warned else translatable("partial credit"))
