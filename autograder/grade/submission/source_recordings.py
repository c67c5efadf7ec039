"""The recordings of a source's own demonstrations, made once for all submissions in a worker that runs nobody's answers."""

from __future__ import annotations

from autograder.grade.submission.connection.server_client import ServerClient
from autograder.grade.submission.connection.worker_client import WorkerEnded
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
    texts = [source.for_students(cell) if cell.kind == "test" else cell.text for cell in cells]
    requests: list[messages.Request] = [messages.RunCell(text) for text in texts if text.strip()]
    try:
        with server.worker(source.student_files | source.files, source.late_modules) as worker:
            # A cell of the teacher's that fails has failed for every student, too.
            *_, recorded = worker.answers([*requests, messages.ListRecordings()])
            return recorded.recordings[0] if isinstance(recorded, messages.Recorded) else b""
    except WorkerEnded:
        return b""  # every submission then records them itself
