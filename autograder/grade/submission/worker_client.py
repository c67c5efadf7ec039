"""The trusted side's connection to the worker that runs one submission."""

from __future__ import annotations

import socket
import time
from typing import TypeVar

from autograder.errors import UnfinishedError
from autograder.grade.submission.resource_watch import ResourceWatch
from autograder.grade.wire import messages
from autograder.grade.wire.channel import ChannelError, receive, send
from autograder.grade.wire.limits import Limits

GRACE_SECONDS = 2.0  # between the interrupt, which a cell may swallow, and the end of its process

Answer = TypeVar("Answer", bound=messages.Answer)


class WorkerEnded(UnfinishedError):
    """The submission's process is gone; the message says why, in words for the grade's reason."""


class WorkerClient:
    """One submission's process: send a request, and get an answer of the type that belongs to it."""

    def __init__(
        self, connection: socket.socket, limits: Limits, watch: ResourceWatch, files: dict[str, bytes]
    ) -> None:
        self._connection, self.limits, self._watch = connection, limits, watch
        self._deadline = time.monotonic() + limits.submission_seconds
        self._number = 0
        self.ended = ""
        self.ask(messages.BeginSubmission(files, limits.cell_seconds, limits.output_bytes), messages.NameDescription)

    def ask(self, request: messages.Request, form: type[Answer]) -> Answer:
        """Returns the answer to a request.

        Raises:
            WorkerEnded: the process is gone, too slow or too large, or it sent something else. So does every later request.
            KeyError: the worker has no such name, or could not answer; it continues to run.
        """
        if self.ended:
            raise WorkerEnded(self.ended)
        self._number += 1
        try:
            send(self._connection, messages.Question(self._number, request))
            answer = self._answer()
            if not isinstance(answer, form | messages.Failure):
                raise ChannelError("it gave the answer to another question")
        except (ChannelError, MemoryError) as error:
            self.ended = self._watch.verdict or str(error) or "it answered with too much"
            self._connection.close()
            raise WorkerEnded(self.ended) from None
        if isinstance(answer, messages.Failure):
            raise KeyError(answer.reason[:2000])
        return answer

    def _answer(self) -> messages.Answer:
        deadline = min(self._deadline, time.monotonic() + self.limits.cell_seconds + GRACE_SECONDS)
        while True:
            reply = receive(
                self._connection,
                messages.Reply,
                largest=self.limits.reply_bytes,
                deadline=deadline,
                watch=self._watch.check,
            )
            if reply.number == self._number:
                return reply.answer
            # A late answer from a process that a cell forked; one that keeps sending them runs into the deadline.
