"""A lane's connection to the worker that runs one submission, or to its judge."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import nbformat
from nbformat import NotebookNode

from autograder.errors import UnfinishedError
from autograder.grade.submission.connection.resource_watch import ResourceWatch
from autograder.grade.wire import messages
from autograder.grade.wire.channel import ChannelError, receive, send
from autograder.grade.wire.limits import Limits
from autograder.grade.wire.outputs import ReceivedOutputs
from autograder.locale.translations import in_english

GRACE_SECONDS = 2.0  # the time between the interrupt, which a cell may catch, and the end of its process
TEST_TIME_FACTOR = 4  # a test may make several calls, and each may take as long as a cell

Answer = TypeVar("Answer", bound=messages.Answer)
OnAsked = Callable[[messages.Asked], messages.Replied]


def received_outputs(data: bytes, received: ReceivedOutputs) -> list[NotebookNode]:
    """Return outputs that a worker sent, restricted to nbformat's form."""
    try:
        return [nbformat.from_dict(output) for output in received.read(data)]
    except ValueError:
        return [ended_output(in_english("the cell's outputs had an unknown format and were left out"))]


def ended_output(reason: str) -> NotebookNode:
    """Return the output to show below a cell that did not finish."""
    return nbformat.v4.new_output("error", ename="Ended", evalue=reason, traceback=[reason])


class WorkerEnded(UnfinishedError):
    """The submission's process has ended; the message gives the reason, in words for the grade."""


class WorkerClient:
    """One submission's process, or its judge: sends requests, and receives an answer to each.

    Attributes:
        ended: the reason why the process has ended; None while it runs.
        received: reads the outputs of its cells.
    """

    def __init__(self, connection: socket.socket, limits: Limits, watch: ResourceWatch, begin: messages.Begin) -> None:
        self._connection, self.limits, self._watch = connection, limits, watch
        self._number = 0
        self.ended: str | None = None
        self.received = ReceivedOutputs(limits.output_bytes)
        self.ask(begin, messages.Done)

    @property
    def seconds_left(self) -> float:
        """The rest of the submission's time, on its own clock."""
        return self._watch.seconds_left

    @property
    def processor_seconds(self) -> float:
        """The processor time that all processes of the submission have used."""
        return self._watch.processor_seconds

    def answers(self, requests: Sequence[messages.Request]) -> Iterator[messages.Answer]:
        """Yield the answer to each request, in order. The process works on the next one while the caller handles an answer.

        Raises:
            WorkerEnded: the process has ended, is too slow or too large, or sent an invalid answer. Later requests
                raise it too.
        """
        self._send(list(requests))
        for request in requests:
            yield self._next(self._seconds(request))

    def ask(self, request: messages.Request, form: type[Answer]) -> Answer:
        """Return the answer to a request.

        Raises:
            WorkerEnded: see `answers`.
            KeyError: the process does not have such a name, or could not answer; it continues to run.
        """
        (answer,) = self.answers([request])
        return self._checked(answer, form)

    def run_test(self, request: messages.RunTest, on_asked: OnAsked) -> messages.TestRan:
        """Return the result of a test in a judge; `on_asked` replies to its requests to the student's process.

        Raises:
            WorkerEnded: the judge has ended, or is too slow.
            KeyError: the judge could not run the test.
        """
        self._send([request])
        answer = self._next(request.seconds)
        while isinstance(answer, messages.Asked):
            self._send([on_asked(answer)], self._number)
            answer = self._next(request.seconds)
        return self._checked(answer, messages.TestRan)

    def _seconds(self, request: messages.Request) -> float:
        return request.seconds if isinstance(request, messages.RecordAttempts) else self.limits.cell_seconds

    def _checked(self, answer: messages.Answer, form: type[Answer]) -> Answer:
        if isinstance(answer, messages.Failure):
            raise KeyError(answer.reason)
        if not isinstance(answer, form):
            raise self._end(ChannelError(in_english("it answered a different request")))
        return answer

    def _send(self, requests: list[messages.Request], number: int | None = None) -> None:
        if self.ended is not None:
            raise WorkerEnded(self.ended)
        self._number = self._number + 1 if number is None else number
        self._watch.wait_until(self._watch.deadline(self.limits.cell_seconds, GRACE_SECONDS))
        try:
            send(self._connection, messages.Batch(self._number, requests), watch=self._watch.check)
        except (ChannelError, MemoryError) as error:
            raise self._end(error) from None

    def _next(self, seconds: float) -> messages.Answer:
        if self.ended is not None:
            raise WorkerEnded(self.ended)
        self._watch.wait_until(self._watch.deadline(seconds, GRACE_SECONDS))
        try:
            while True:
                reply = receive(
                    self._connection,
                    messages.Reply,
                    largest=self.limits.reply_bytes,
                    most_items=self.limits.reply_items,
                    watch=self._watch.check,
                )
                if reply.number == self._number:
                    return reply.answer
                # Ignore a late answer from a process that a cell forked; if such answers continue, the time limit ends
                # the process.
        except (ChannelError, MemoryError) as error:
            raise self._end(error) from None

    def _end(self, error: BaseException) -> WorkerEnded:
        self.ended = self._watch.verdict or str(error) or in_english("its answer was too large")
        self._connection.close()
        return WorkerEnded(self.ended)
