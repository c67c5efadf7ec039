"""What both graders do: read a submission, start its worker, run its cells, and return one grade."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from autograder.grade.submission.align import align
from autograder.grade.submission.notebook_grade import NotebookGrade
from autograder.grade.submission.server_client import ServerClient
from autograder.grade.submission.source import AssignmentSource
from autograder.grade.submission.submission_run import SubmissionRun, unreadable
from autograder.grade.submission.submitted_files import UnreadableSubmission
from autograder.grade.submission.untrusted_notebook import parse
from autograder.grade.submission.worker_client import WorkerClient, WorkerEnded
from autograder.grade.wire.limits import Limits


class SubmissionGrader(ABC):
    """Grades submissions one after another, each in a worker of its own."""

    def __init__(self, server: ServerClient, limits: Limits) -> None:
        self._server, self._limits = server, limits

    def grade(
        self, source: AssignmentSource, data: bytes, files: dict[str, bytes], seed: int | None = None
    ) -> NotebookGrade:
        """Returns the grade of a notebook; whatever is wrong with the notebook is part of the grade, not an error.

        Args:
            source: the teacher's notebook.
            data: the bytes of the submitted file.
            files: the other submitted files, by relative path.
            seed: from which the tests' inputs are drawn; None draws one that nobody can know. Tests in the submission's
                own process do not use it.

        Raises:
            IsolationError: the server does not start.
        """
        start = time.monotonic()
        try:
            cells = align(source, parse(data))
        except UnreadableSubmission as error:
            return unreadable(source, str(error))
        run = SubmissionRun(source, cells)
        try:
            with self._server.worker(files | source.files, source.late_modules) as worker:
                self.run_cells(run, worker, seed)
        except WorkerEnded as error:
            run.ended = run.ended or str(error)  # there was no process to run the cells in
        return run.grade(time.monotonic() - start)

    @abstractmethod
    def run_cells(self, run: SubmissionRun, worker: WorkerClient, seed: int | None) -> None:
        """Runs every code cell and every test, and adds the tests' grades to `run.grades`."""
