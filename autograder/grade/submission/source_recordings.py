"""The recordings of a source's own demonstrations, made once for all submissions in a worker that runs nobody's answers."""

from __future__ import annotations

import contextlib

from autograder.grade.submission.connection.server_client import ServerClient
from autograder.grade.submission.connection.worker_client import WorkerClient, WorkerEnded
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.wire import messages

DECORATOR = "observed"


def recordings_of(source: AssignmentSource, server: ServerClient) -> bytes:
    """Returns what the demonstrations of a source record when it runs as handed out; b"" if it has none.

    The worker runs the text that every student has, without tests, so nothing in the recordings is secret, and no submission
    can change those that another one gets.

    Raises:
        IsolationError: the server does not start.
    """
    cells = [cell for cell in source.cells if cell.cell.cell_type == "code"]
    if not any(DECORATOR in cell.text for cell in cells if cell.kind != "test"):
        return b""
    try:
        with server.worker(source.files, source.late_modules) as worker:
            for cell in cells:
                _run(worker, source.for_learners(cell) if cell.kind == "test" else cell.text)
            return worker.ask(messages.AskRecordings(), messages.Recordings).encoded
    except (WorkerEnded, KeyError):
        return b""  # every submission then records them itself


def _run(worker: WorkerClient, text: str) -> None:
    if text.strip():
        with contextlib.suppress(KeyError):  # a cell of the teacher's that fails has failed for every student, too
            worker.ask(messages.RunCell(text), messages.CellOutputs)
