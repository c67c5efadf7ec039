"""Tests in the submission's own process, as nbgrader runs them: for tests that need more than plain data.

Everything else is isolated from the process, but a test shares it with the code that it judges: a submission can forge
the points of these tests, though not those of another submission, and can read their text. `SECURITY.md` describes when
this is acceptable.
"""

from __future__ import annotations

from collections.abc import Collection

from nbformat import NotebookNode, v4

from autograder.grade.submission.connection.worker_client import WorkerClient
from autograder.grade.submission.notebook_grade import CellGrade
from autograder.grade.submission.submission_run import SubmissionRun, partly_reason
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.submission.teacher.source_cells import SourceCell
from autograder.grade.wire import messages
from autograder.locale.translations import in_english, translatable, translated

COVERED = translatable("(this test shares its process with hidden tests, so what it printed is not shown)")


def run_cells(run: SubmissionRun, worker: WorkerClient, tests: Collection[str]) -> None:
    """Run the student's cells and the tests in order, with earlier tests whose names these use.

    The process itself reports the error and the last value of a test; a submission can forge both.
    """
    beside = run.source.with_binders(tests)
    hidden = shows_hidden_text(run.source, tests)
    cells = [(cell, own) for cell, own, _ in run.cells if cell.cell_type == "code"]
    texts = [(cell, _text(run.source, cell, own, beside)) for cell, own in cells]
    for (cell, own), answer in zip(cells, run.run_cells(texts, worker), strict=True):
        if own is not None and own.kind == "test" and own.id in tests and answer is not None:
            run.grades[own.id] = _grade(own, answer, hidden=hidden)
            if hidden and not own.hides:
                _cover_outputs(cell)


def _text(source: AssignmentSource, cell: NotebookNode, own: SourceCell | None, beside: Collection[str]) -> str:
    if own is None or own.kind != "test":
        return cell.source
    return own.text if own.id in beside else source.for_students(own)


def shows_hidden_text(source: AssignmentSource, tests: Collection[str]) -> bool:
    """Return whether a submission can read a hidden test while it runs in one process with these tests."""
    return any(source.by_id[name].hides for name in source.with_binders(tests))


def _cover_outputs(cell: NotebookNode) -> None:
    """Replace the outputs of a fully visible test that ran in a process where a hidden one could be read."""
    errors = [output for output in cell.outputs if output.output_type == "error"]
    cell.outputs = [v4.new_output("stream", name="stdout", text=f"{translated(COVERED)}\n")] if cell.outputs else []
    if errors:
        reason = in_english("This test did not pass.")
        cell.outputs += [v4.new_output("error", ename="TestFailed", evalue=reason, traceback=[reason])]


def _grade(own: SourceCell, answer: messages.CellRan, *, hidden: bool) -> CellGrade:
    most = own.points
    if answer.error is not None:
        kind, told = answer.error
        status = {"CellTimeoutError": "timed out", "NotAttempted": "not attempted"}.get(kind, "incorrect")
        reason = told or kind
        return CellGrade(status=status, points=0.0, max_points=most, reason=reason, hidden=hidden, kind="in process")  # type: ignore[arg-type]
    points = most if answer.points is None else min(answer.points, most)
    status = "correct" if points == most else "partly" if points else "incorrect"
    return CellGrade(
        status=status,  # type: ignore[arg-type]
        points=points,
        max_points=most,
        reason="" if points == most else partly_reason(points, most),
        hidden=hidden,
        kind="in process",
        over_maximum=answer.points if (answer.points or 0.0) > most else None,
    )
