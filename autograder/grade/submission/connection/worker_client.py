"""The trusted side's connection to the worker that runs one submission."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TypeVar

from autograder.errors import UnfinishedError
from autograder.grade.submission.connection.resource_watch import Deadline, ResourceWatch
from autograder.grade.wire import messages
from autograder.grade.wire.channel import ChannelError, receive, send
from autograder.grade.wire.limits import Limits
from autograder.grade.wire.outputs import ReceivedOutputs
from autograder.locale.translations import in_english

GRACE_SECONDS = 2.0  # between the interrupt, which a cell may swallow, and the end of its process

Answer = TypeVar("Answer", bound=messages.Answer)
CallBack = Callable[[messages.CallbackAsked], messages.CallbackReturned]


class WorkerEnded(UnfinishedError):
    """The submission's process is gone; the message says why, in words for the grade's reason."""


class WorkerClient:
    """One submission's process: send a request, and get an answer of the type that belongs to it.

    Attributes:
        ended: why the process is gone; "" while it is there.
        received: reads the outputs that its cells show.
    """

    def __init__(
        self,
        connection: socket.socket,
        limits: Limits,
        watch: ResourceWatch,
        files: dict[str, bytes],
        recordings: bytes = b"",
    ) -> None:
        self._connection, self.limits, self._watch = connection, limits, watch
        self._number = 0
        self.ended = ""
        self.received = ReceivedOutputs(limits.output_bytes)
        begin = messages.BeginSubmission(files, limits.cell_seconds, limits.output_bytes, recordings)
        self.ask(begin, messages.NameDescription)

    @property
    def seconds_left(self) -> float:
        """What is left of the submission's time, on its own clock."""
        return self._watch.seconds_left

    @property
    def processor_seconds(self) -> float:
        """What the submission has used of processor time, with all of its processes."""
        return self._watch.processor_seconds

    def clock(self) -> float:
        """Returns seconds on the submission's own clock; see `ResourceWatch.clock`."""
        return self._watch.clock()

    def ask(self, request: messages.Request, form: type[Answer], call_back: CallBack | None = None) -> Answer:
        """Returns the answer to a request.

        Args:
            request: the question.
            form: what the answer must be.
            call_back: calls functions of the test's that the learner's code has been given; may ask questions of its own.

        Raises:
            WorkerEnded: the process is gone, too slow or too large, or it sent something else. So does every later request.
            KeyError: the worker has no such name, or could not answer; it continues to run.
        """
        self._number += 1
        number, deadline = self._number, self._watch.deadline(self.limits.cell_seconds, GRACE_SECONDS)
        answer = self._exchange(number, request, deadline)
        while isinstance(answer, messages.CallbackAsked) and call_back is not None:
            returned = call_back(answer)
            answer = self._exchange(number, returned, deadline)
        if isinstance(answer, messages.Failure):
            raise KeyError(answer.reason)
        if not isinstance(answer, form):
            raise self._end(ChannelError(in_english("it gave the answer to another question")))
        return answer

    def _exchange(self, number: int, request: messages.Request, deadline: Deadline) -> messages.Answer:
        if self.ended:
            raise WorkerEnded(self.ended)
        try:
            self._watch.wait_until(deadline)
            send(self._connection, messages.Question(number, request), watch=self._watch.check)
            return self._answer(number)
        except (ChannelError, MemoryError) as error:
            raise self._end(error) from None

    def _end(self, error: BaseException) -> WorkerEnded:
        self.ended = self._watch.verdict or str(error) or in_english("it answered with too much")
        self._connection.close()
        return WorkerEnded(self.ended)

    def _answer(self, number: int) -> messages.Answer:
        while True:
            reply = receive(
                self._connection,
                messages.Reply,
                largest=self.limits.reply_bytes,
                most_items=self.limits.reply_items,
                watch=self._watch.check,
            )
            if reply.number == number:
                return reply.answer
            # A late answer from a process that a cell forked; one that keeps sending them runs out of time.
