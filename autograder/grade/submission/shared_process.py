"""The mode `--one-process`: the whole notebook, its tests too, in one isolated process. For any nbgrader notebook in Python.

Nothing reaches out of the process, but a test shares it with the code that it judges: a submission can forge its own
points, never anybody else's. `SECURITY.md` says when that is good enough.
"""

from __future__ import annotations

from nbformat import NotebookNode
from nbgrader import utils

from autograder.grade.submission.notebook_grade import CellGrade
from autograder.grade.submission.submission_grader import SubmissionGrader
from autograder.grade.submission.submission_run import SubmissionRun
from autograder.grade.submission.worker_client import WorkerClient


class SharedProcessGrader(SubmissionGrader):
    """Runs every cell in the worker; points are read from the outputs, by nbgrader's own rule."""

    def run_cells(self, run: SubmissionRun, worker: WorkerClient, seed: int | None) -> None:
        """Runs the cells in order; the seed is not used, because the tests draw their inputs in the submission's process."""
        for cell, own, _ in run.cells:
            if cell.cell_type == "code":
                run.run_cell(cell, worker)
            if own is not None and own.kind == "test" and not run.ended:
                run.grades[own.id] = _grade_from_outputs(cell)


def _grade_from_outputs(cell: NotebookNode) -> CellGrade:
    errors = [output for output in cell.outputs if output.output_type == "error"]
    try:
        points, most = utils.determine_grade(cell)
        reason = errors[0].evalue if errors else "" if points == most else "text on stderr, or partial credit"
    except ValueError as error:  # partial credit above the maximum, which stops nbgrader's batch (0.9.6)
        points, most, reason = 0.0, float(cell.metadata.nbgrader.points), str(error)
    status = "correct" if points == most else "partly" if points else "incorrect"
    return CellGrade(status=status, points=points, max_points=most, reason=reason)  # type: ignore[arg-type]
