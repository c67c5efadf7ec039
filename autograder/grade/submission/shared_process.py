"""The second mode: a notebook as it is, its tests too, in one isolated process. For any nbgrader notebook in Python.

Nothing reaches out of the process, but a test shares it with the code that it judges: a submission can forge its own
points here (never anybody else's). `SECURITY.md` says when that is good enough.
"""

from __future__ import annotations

import time

from nbgrader import utils

from autograder.grade.submission.align import align
from autograder.grade.submission.remote import Ended, Server
from autograder.grade.submission.result import CellGrade, Graded
from autograder.grade.submission.source import AssignmentSource
from autograder.grade.submission.submission_grader import SubmissionRun, unreadable
from autograder.grade.submission.untrusted_notebook import Unreadable, parse
from autograder.grade.wire.limits import Limits


class OneProcess:
    """Grades submissions one after another, each in a worker of its own that runs every cell."""

    def __init__(self, server: Server, limits: Limits) -> None:
        self._server, self._limits = server, limits

    def grade(self, source: AssignmentSource, data: bytes, files: dict[str, bytes], seed: int | None = None) -> Graded:
        """Returns the grade of a notebook; points are read off the outputs, by nbgrader's own rule.

        Args:
            source: the teacher's notebook.
            data: the submitted notebook's bytes.
            files: what was handed in beside it, by relative path.
            seed: not used; the tests draw in the submission's process.
        """
        start = time.monotonic()
        try:
            cells = align(source, parse(data))
        except Unreadable as error:
            return unreadable(source, str(error))
        run = SubmissionRun(source, cells)
        try:
            with self._server.worker(files, source.late_modules) as worker:
                for cell, own, _ in cells:
                    if cell.cell_type == "code":
                        run.learners(cell, worker)
                    if own is not None and own.kind == "test" and not run.ended:
                        run.grades[own.id] = _read_off(cell)
        except Ended as error:
            run.never_started(str(error))
        return run.graded(time.monotonic() - start)


def _read_off(cell: object) -> CellGrade:
    errors = [output for output in cell.outputs if output.output_type == "error"]  # type: ignore[attr-defined]
    try:
        points, most = utils.determine_grade(cell)
        reason = errors[0].evalue if errors else "" if points == most else "text on stderr, or partial credit"
    except ValueError as error:  # partial credit above the maximum stops nbgrader's batch (0.9.6)
        points, most, reason = 0.0, float(cell.metadata.nbgrader.points), str(error)  # type: ignore[attr-defined]
    status = "correct" if points == most else "partly" if points else "incorrect"
    return CellGrade(status=status, points=points, max_points=most, reason=reason)  # type: ignore[arg-type]
