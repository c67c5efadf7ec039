"""What autograd held during wrong answers, for the pictures in the feedback: recorded in the submission's process, checked here."""

from __future__ import annotations

import time

from autograder.check.subject.call_report import Call
from autograder.grade.clean.drawn_recordings import checked_recording
from autograder.grade.submission.connection.worker_client import WorkerClient, WorkerEnded
from autograder.grade.wire import messages
from autograder.tape.recording.schema import Recording

LONGEST = 3.0  # seconds for one recording
PART = 2  # of a cell's seconds, of a submission's and of its memory, half at least are left to its own cells and tests


class AttemptRecordings:
    """Asks for the recordings of one submission, until its seconds for pictures are used up.

    Args:
        worker: the submission's process.
        seconds: for all recordings together; 0 asks for none.
    """

    def __init__(self, worker: WorkerClient, seconds: float) -> None:
        self._worker, self._left = worker, seconds

    def recording(self, name: str, call: Call, knows_gradients: bool = False) -> Recording | None:
        """Returns what autograd held during a call, as the worker says; None where it cannot be recorded."""
        limits = self._worker.limits
        if self._left <= 0 or self._worker.seconds_left < limits.submission_seconds / PART:
            return None
        start, seconds = time.monotonic(), min(self._left, LONGEST, limits.cell_seconds / PART)
        request = messages.AskAttempt(name, call, seconds, limits.memory_bytes // PART, knows_gradients)
        try:
            answer = self._worker.ask(request, messages.AttemptAnswer)
        except (WorkerEnded, KeyError):
            return None
        finally:
            self._left -= time.monotonic() - start
        return checked_recording(answer.recording)
