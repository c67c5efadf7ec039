"""The submission's own process: runs its cells, keeps its names, and answers the grader's questions about them.

Everything here shares a process with untrusted code. It has no expected value, no hidden test and no seed, and the trusted
side checks whatever it answers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from autograder.check.programs.demonstrations import KeptRecordings, use_recordings
from autograder.check.subject.call_report import CallProblem, ProgramText, Report
from autograder.check.subject.subjects import LocalSubject
from autograder.errors import as_utf8, message_of
from autograder.grade.sandbox.attempt_in_fork import encoded_attempt
from autograder.grade.sandbox.objects.learner_values import LearnerValues
from autograder.grade.sandbox.shell import CellTimeoutError, Shell, limit_from_outside
from autograder.grade.wire import messages
from autograder.grade.wire.channel import ChannelError, receive, send
from autograder.grade.wire.limits import MEBIBYTE, TIME_IS_UP
from autograder.grade.wire.outputs import Outputs
from autograder.grade.wire.shared.own_modules import path_with, replaced_modules, take_out
from autograder.grade.wire.shared.shared_folder import SharedFolder

LARGEST_QUESTION = 256 * MEBIBYTE


def serve(connection: socket.socket, shell: Shell, folder: Path) -> None:
    """Answers questions until the grader closes the connection. `folder` is where the cells run."""
    signal.signal(TIME_IS_UP, signal.SIG_IGN)
    shell.time_limit = limit_from_outside
    _Worker(connection, shell, folder).serve()


class _Worker:
    def __init__(self, connection: socket.socket, shell: Shell, folder: Path) -> None:
        self.connection, self.shell, self.folder = connection, shell, folder
        self.process = os.getpid()
        self.cell_seconds = 30.0
        self.answers: dict[type, Callable[[Any], messages.Answer]] = {
            messages.BeginSubmission: self._begin,
            messages.RunCell: self._run,
            messages.AskName: lambda request: self.values.describe(request),
            messages.AskCall: self._call,
            messages.AskAttempt: self._attempt,
            messages.AskProgram: self._program,
            messages.AskOperation: lambda request: self.values.operate(request),
            messages.AskGradients: lambda request: self.values.pull(request),
            messages.AskRecordings: lambda _: messages.Recordings(self.recordings.encoded()),
        }
        self.values = LearnerValues(shell, self._call_back, SharedFolder(folder))
        self.recordings = KeptRecordings()
        self.subjects: dict[str, LocalSubject] = {}
        self.number = 0
        self.runs_cell = False

    def serve(self) -> None:
        with contextlib.suppress(ChannelError):
            while True:
                self._serve_one()

    def _serve_one(self) -> messages.CallbackReturned | None:
        """Answers one question; returns it instead if it is what a callback returned, for which an operation waits."""
        question = receive(self.connection, messages.Question, largest=LARGEST_QUESTION)
        if isinstance(question.request, messages.CallbackReturned):
            return question.request
        before, self.number = self.number, question.number
        self._reply(question.number, self._answer(question.request))
        self.number = before
        return None

    def _reply(self, number: int, answer: messages.Answer) -> None:
        try:
            send(self.connection, messages.Reply(number, answer))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:  # it is encoded before a byte is sent
            send(self.connection, messages.Reply(number, _failure(error)))

    def _call_back(self, request: messages.CallbackAsked) -> messages.CallbackReturned:
        """Asks the grader to call a function of the test's, which may ask questions of its own before it returns."""
        if threading.current_thread() is not threading.main_thread() or os.getpid() != self.process:
            raise RuntimeError("a function that the test passed can only be called in the thread that it was passed to")
        if self.runs_cell:
            raise RuntimeError("a function that a test passed can only be called while that test runs")
        send(self.connection, messages.Reply(self.number, request))
        while True:
            if (answer := self._serve_one()) is not None:
                return answer

    def _answer(self, request: messages.Request) -> messages.Answer:
        try:
            # Around all of it: what reads an answer's values and errors calls their `__str__` and the like.
            with self.shell.time_limit(self.cell_seconds):
                answer = self._answer_or_failure(request)
        except CellTimeoutError as error:
            answer = _failure(error)
        if os.getpid() != self.process:
            os._exit(0)  # a cell forked and its child returned from it: the child must not answer
        return answer

    def _answer_or_failure(self, request: messages.Request) -> messages.Answer:
        try:
            return self.answers[type(request)](request)
        except BaseException as error:  # noqa: BLE001 - what a learner's code raises ends its call, and not its process
            return _failure(error)

    def _begin(self, request: messages.BeginSubmission) -> messages.Answer:
        for name, data in request.files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        sys.path[:] = path_with("", sys.path)  # modules beside the notebook can be imported, as in a kernel
        take_out(replaced_modules(request.files))
        self.cell_seconds = self.values.cell_seconds = request.cell_seconds
        self.values.folder.changed()
        self.shell.outputs = Outputs(request.output_bytes)
        self.recordings.add(request.recordings)
        return messages.NameDescription("absent")

    def _run(self, request: messages.RunCell) -> messages.Answer:
        self.runs_cell = True
        try:
            with use_recordings(self.recordings):
                ran = self.shell.run(request.text, self.cell_seconds)
        finally:
            self.runs_cell = False
        return messages.CellOutputs(msgspec.json.encode(ran.outputs), ran.execution_count)

    def _subject(self, name: str) -> LocalSubject:
        """Returns the subject of what a name stands for now; the same one for the same object, as it reads the answer's code once."""
        target = self.shell.user_ns[name]
        if name not in self.subjects or self.subjects[name].target is not target:
            self.subjects[name] = LocalSubject(target)
        return self.subjects[name]

    def _call(self, request: messages.AskCall) -> messages.Answer:
        try:
            with self.shell.separate_outputs(0), self.shell.time_limit(self.cell_seconds):
                return messages.CallAnswer(self._subject(request.name).call(request.call))
        except CellTimeoutError as error:
            return messages.CallAnswer(Report(problem=CallProblem("forward", "CellTimeoutError", str(error))))

    def _attempt(self, request: messages.AskAttempt) -> messages.Answer:
        subject = self._subject(request.name)
        with self.shell.separate_outputs(0):
            found = encoded_attempt(
                lambda: subject.recording(request.call, request.knows_gradients), request.seconds, request.spared_bytes
            )
        return messages.AttemptAnswer(found)

    def _program(self, request: messages.AskProgram) -> messages.Answer:
        try:
            with self.shell.separate_outputs(0), self.shell.time_limit(self.cell_seconds):
                return messages.ProgramAnswer(self._subject(request.name).program())
        except CellTimeoutError as error:
            return messages.ProgramAnswer(ProgramText("raises-forward", f"CellTimeoutError: {error}", (), None))


def _failure(error: BaseException) -> messages.Failure:
    return messages.Failure(f"{as_utf8(type(error).__name__)}: {message_of(error)}"[: messages.LONGEST_REASON])


def forget_the_server() -> None:
    """Resets the command-line arguments and NumPy's random state, which a fork inherits from the server."""
    sys.argv[:] = [""]
    if numpy := sys.modules.get("numpy"):
        # A fork inherits NumPy's state. Python reseeds `random` itself, and torch starts with one fixed seed in every process.
        numpy.random.seed()
