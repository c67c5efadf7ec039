"""The answers of one submission to the requests of a declarative cell, in the form of the names that its checks look up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from autograder.check.subject.call_report import ProgramText, Report
from autograder.grade.sandbox.judge import RemoteSubject, Unreachable, cannot_leave, form_of_result
from autograder.grade.submission.cell_analysis import SubmissionText
from autograder.grade.submission.server_client import WorkerClient, WorkerEnded
from autograder.grade.wire import messages
from autograder.grade.wire.plain_values import decode
from autograder.locale.messages import Message
from autograder.tape.recording.schema import Recording

LONGEST_MESSAGE = 2000


class StudentAnswers:
    """The student's names for one check; all information about them was requested before, in one batch.

    There are fewer answers than requests if the program has ended. The text is that of the cells that had run. The
    worker makes calls that are not among the requests.
    """

    def __init__(
        self,
        requests: Sequence[messages.Request],
        answers: Sequence[messages.Answer],
        text: SubmissionText,
        worker: WorkerClient,
    ) -> None:
        self._requests, self._answers, self.text, self._worker = requests, list(answers), text, worker
        self.attempts: list[messages.Attempt] = []
        self.recordings: dict[messages.Attempt, Recording | None] = {}

    def subject(self, name: str) -> RemoteSubject:
        """Return the student's function or class of that name; raise KeyError if it does not exist."""
        first = self._answers[0] if self._answers else None
        if isinstance(first, messages.Failure) and first.reason.startswith("KeyError: "):
            raise KeyError(name)
        group = next((request.group for request in self._requests if isinstance(request, messages.MakeCall)), 0)
        return RemoteSubject(name, group, self._result, self._recorded)

    def value(self, name: str) -> Any:
        """Return the student's plain value of that name; raise KeyError if it does not exist."""
        description = self.answer(messages.DescribeName(name), messages.NameDescription, name)
        if description.kind == "absent":
            raise KeyError(name)
        if description.kind != "data" or description.unsendable is not None:
            raise Unreachable(cannot_leave(name, description))
        return decode(description.value)

    def answer(self, request: messages.Request, form: type[Any], name: str) -> Any:
        """Return the answer to a request, which is sent now if necessary; raise Unreachable if it cannot be answered."""
        try:
            if request in self._requests:
                place = self._requests.index(request)
                if place >= len(self._answers):
                    raise WorkerEnded(self._worker.ended or "")
                answer = self._answers[place]
            else:
                (answer,) = self._worker.answers([request])
        except WorkerEnded as error:
            raise Unreachable(
                Message(
                    "test.program_was_ended|{name} cannot be checked, because the program was ended: {reason}",
                    name=name,
                    reason=str(error),
                )
            ) from None
        if not isinstance(answer, form):
            said = answer.reason if isinstance(answer, messages.Failure) else messages.OTHER_REQUEST
            raise Unreachable(Message("test.uncallable|{name} could not be called: {reason}", name=name, reason=said))
        return answer

    def _result(self, asked: messages.MakeCall) -> ProgramText | Report:
        return decoded_result(self.answer(asked, messages.Returned, asked.name).data, asked, self.text)

    def _recorded(self, attempt: messages.Attempt) -> Recording | None:
        """Return the recording of an attempt; if it was not made yet, note the attempt and return None."""
        if attempt in self.recordings:
            return self.recordings[attempt]
        self.attempts.append(attempt)
        return None


def decoded_result(data: bytes, asked: messages.MakeCall, text: SubmissionText) -> ProgramText | Report:
    """Return a result that a student's process sent, with the source of the student's code, which the process could forge.

    Raises:
        Unreachable: it is damaged.
    """
    try:
        result = msgspec.msgpack.decode(data, type=form_of_result(asked))
        result = msgspec.structs.replace(result, code=text.code(asked.name), words=text.words(asked.name))
        if isinstance(result, ProgramText):
            return msgspec.structs.replace(result, error=result.error[:LONGEST_MESSAGE])
        for arrays in (result.outputs, result.after, result.gradients):
            for values in arrays.values():
                if values is not None:
                    values.tensor()
    except (ValueError, RuntimeError, MemoryError, OverflowError, TypeError):  # includes msgspec's errors
        said = messages.OTHER_REQUEST
        message = Message("test.uncallable|{name} could not be called: {reason}", name=asked.name, reason=said)
        raise Unreachable(message) from None
    problem = result.problem and msgspec.structs.replace(
        result.problem,
        type=result.problem.type[:100],
        message=result.problem.message[:LONGEST_MESSAGE],
        text=result.problem.text[:200],
    )
    return msgspec.structs.replace(result, problem=problem)
