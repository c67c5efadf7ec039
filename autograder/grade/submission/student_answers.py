"""The answers of one submission to the requests of a declarative cell, in the form of the names that its checks look up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from autograder.check.subject.call_report import Call, ProgramText, Report
from autograder.grade.sandbox.judge import Unreachable, cannot_leave
from autograder.grade.submission.cell_analysis import SubmissionText
from autograder.grade.submission.server_client import WorkerClient, WorkerEnded
from autograder.grade.wire import messages
from autograder.grade.wire.plain_values import decode
from autograder.locale.messages import Message
from autograder.tape.recording.schema import Recording

LONGEST_MESSAGE = 2000
TIMED_OUT = "CellTimeoutError"


class StudentAnswers:
    """The student's names for one check; all information about them was requested before, in one batch.

    Args:
        requests: the sent requests.
        answers: the answers to the first requests; fewer than the requests if the program has ended.
        text: the text of the cells that had run.
        worker: the worker, for calls that are not among the requests.
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

    def subject(self, name: str) -> AnsweredSubject:
        """Return the student's function or class of that name; raise KeyError if it does not exist."""
        first = self._answers[0] if self._answers else None
        if isinstance(first, messages.Failure) and first.reason.startswith("KeyError: "):
            raise KeyError(name)
        return AnsweredSubject(name, self)

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

    def recording(self, attempt: messages.Attempt) -> Recording | None:
        """Return the recording of an attempt; if it was not made yet, note the attempt and return None."""
        if attempt in self.recordings:
            return self.recordings[attempt]
        self.attempts.append(attempt)
        return None

    @property
    def group(self) -> int:
        """The group of the requests; 0 if they do not have one."""
        return next((getattr(request, "group", 0) for request in self._requests), 0)


class AnsweredSubject:
    """A student's function or class whose calls have been made; the lane reads its source from the notebook."""

    def __init__(self, name: str, answers: StudentAnswers) -> None:
        self._name, self._answers = name, answers
        self._has_ended = True

    def call(self, request: Call) -> Report:
        """Return the report of a call."""
        asked = messages.MakeCall(self._name, msgspec.msgpack.encode(request), self._answers.group)
        encoded = self._answers.answer(asked, messages.CallMade, self._name).report
        report = decoded_report(encoded, self._name, self._answers.text)
        self._has_ended = report.problem is None or report.problem.type != TIMED_OUT
        return report

    def program(self) -> ProgramText:
        """Return the outcome of the function without arguments, as the student's process reports it."""
        asked = messages.RunProgram(self._name, self._answers.group)
        encoded = self._answers.answer(asked, messages.ProgramRan, self._name).program
        return decoded_program(encoded, self._name, self._answers.text)

    def program_recording(self) -> Recording | None:
        """Return the recording of `program` from the student's process; None if it was not made yet."""
        return self._answers.recording(messages.Attempt(self._answers.group, None))

    def recording(self, request: Call, knows_gradients: bool = False) -> Recording | None:
        """Return the recording of a call; None if it was not made yet, or the call was stopped."""
        if not self._has_ended:
            return None
        encoded = msgspec.msgpack.encode(request)
        return self._answers.recording(messages.Attempt(self._answers.group, encoded, knows_gradients))

    def uses(self, function: Callable[..., Any]) -> bool:
        """Return False, because the student cannot access a function of the test."""
        return False


def decoded_report(data: bytes, name: str, text: SubmissionText) -> Report:
    """Return a report that a student's process sent, with the source of the student's code, which the process could forge.

    Raises:
        Unreachable: it is damaged.
    """
    report: Report = _decoded(data, Report, name, text)
    try:
        for arrays in (report.outputs, report.after, report.gradients):
            for values in arrays.values():
                if values is not None:
                    values.tensor()
    except (ValueError, RuntimeError, MemoryError, OverflowError, TypeError):
        raise _damaged(name) from None
    problem = report.problem and msgspec.structs.replace(
        report.problem,
        type=report.problem.type[:100],
        message=report.problem.message[:LONGEST_MESSAGE],
        text=report.problem.text[:200],
    )
    return msgspec.structs.replace(report, problem=problem)


def decoded_program(data: bytes, name: str, text: SubmissionText) -> ProgramText:
    """Return the outcome of a program in the same way as `decoded_report`."""
    program: ProgramText = _decoded(data, ProgramText, name, text)
    return msgspec.structs.replace(program, error=program.error[:LONGEST_MESSAGE])


def _decoded(data: bytes, form: type[Any], name: str, text: SubmissionText) -> Any:
    try:
        answer = msgspec.msgpack.decode(data, type=form)
    except (msgspec.MsgspecError, RecursionError):
        raise _damaged(name) from None
    return msgspec.structs.replace(answer, code=text.code(name), words=text.words(name))


def _damaged(name: str) -> Unreachable:
    said = messages.OTHER_REQUEST
    return Unreachable(Message("test.uncallable|{name} could not be called: {reason}", name=name, reason=said))
