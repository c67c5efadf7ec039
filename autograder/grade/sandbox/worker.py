"""The process of one submission, or of the judge of one: runs cells, keeps their names, and answers requests about them.

A worker shares its process with untrusted code. It does not contain expected values, hidden tests or the seed, and the
lane checks every answer. A judge runs the teacher's plain-data tests, and does not run code of a submission.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import signal
import socket
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from autograder.check.demonstrations import RecordingCache, use_recordings
from autograder.check.subject.call_report import Call, CallProblem, ProgramText, Report
from autograder.check.subject.subjects import LocalSubject
from autograder.errors import as_utf8, message_of
from autograder.grade.sandbox.judge import Judge, points_of, seed_all
from autograder.grade.sandbox.shell import (
    CellTimeoutError,
    Shell,
    interrupt_on_signal,
    path_with,
    replaced_modules,
    unload_modules,
)
from autograder.grade.sandbox.student_functions import call_function
from autograder.grade.wire import messages
from autograder.grade.wire.channel import ChannelError, receive, send
from autograder.grade.wire.limits import MEBIBYTE, TIMEOUT_SIGNAL
from autograder.grade.wire.messages import Attempt
from autograder.grade.wire.outputs import Outputs
from autograder.grade.wire.plain_values import NotPlain, encode
from autograder.tape.recording.schema import storable
from autograder.tape.run.budget import Budget

# Fraction of the seconds of one recording after which no further run begins; the recording so far is then used.
FOR_RUNS = 1 / 3


def _encoded(subject: LocalSubject, attempt: Attempt, seconds: float) -> bytes:
    try:
        with Budget(seconds).active():
            if attempt.call is None:
                recording = subject.program_recording()
            else:
                recording = subject.recording(msgspec.msgpack.decode(attempt.call, type=Call), attempt.knows_gradients)
    except BaseException:  # the student's code may raise anything; the next attempt is recorded all the same
        return b""
    return b"" if recording is None else msgspec.msgpack.encode(storable(recording))


LARGEST_BATCH = 256 * MEBIBYTE


def serve(connection: socket.socket, shell: Shell, folder: Path) -> None:
    """Answer requests until the lane closes the connection. `folder` is the working folder of the cells."""
    signal.signal(TIMEOUT_SIGNAL, signal.SIG_IGN)
    sys.argv[:] = [""]  # a fork inherits the arguments of the server
    if numpy := sys.modules.get("numpy"):
        # A fork inherits NumPy's state. Python reseeds `random` itself, and torch starts with a fixed seed in every process.
        numpy.random.seed()
    with contextlib.suppress(ChannelError):
        _Worker(connection, shell, folder).serve()


class _Worker:
    def __init__(self, connection: socket.socket, shell: Shell, folder: Path) -> None:
        self.connection, self.shell, self.folder = connection, shell, folder
        self.process = os.getpid()
        self.cell_seconds = 30.0
        self.answers: dict[type, Callable[[Any], messages.Answer]] = {
            messages.Begin: self._begin,
            messages.RunCell: self._run,
            messages.MakeCall: self._call,
            messages.DescribeName: self._describe,
            messages.CallStudent: self._call_student,
            messages.RecordAttempt: self._record,
            messages.ListRecordings: lambda _: messages.Recorded(self.recordings.encoded()),
            messages.RunTest: lambda request: Judge(shell, self._ask_lane, self.language).run(request),
        }
        self.recordings = RecordingCache()
        self.subjects: dict[int, LocalSubject] = {}
        self.by_target: dict[int, LocalSubject] = {}
        self.with_problem: set[int] = set()
        self.number = 0
        self.language = "en"

    def serve(self) -> None:
        while True:
            batch = receive(self.connection, messages.Batch, largest=LARGEST_BATCH)
            self.number = batch.number
            for request in batch.requests:
                self._reply(self._answer(request))

    def _reply(self, answer: messages.Answer) -> None:
        try:
            send(self.connection, messages.Reply(self.number, answer))  # it is encoded before the first byte is sent
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            send(self.connection, messages.Reply(self.number, _failure(error)))

    def _ask_lane(self, request: Any) -> messages.Replied:
        send(self.connection, messages.Reply(self.number, messages.Asked(request)))
        (reply,) = receive(self.connection, messages.Batch, largest=LARGEST_BATCH).requests
        assert isinstance(reply, messages.Replied)
        return reply

    def _answer(self, request: messages.Request) -> messages.Answer:
        try:
            # The limit covers everything, because reading an answer's values and errors calls their `__str__` and
            # similar methods.
            with interrupt_on_signal(self.cell_seconds):
                try:
                    answer = self.answers[type(request)](request)
                except BaseException as error:  # an exception of the student's code ends its call, and not its process
                    answer = _failure(error)
        except CellTimeoutError as error:
            answer = _failure(error)
        if os.getpid() != self.process:
            os._exit(0)  # a cell forked and its child returned from it: the child must not answer
        return answer

    def _begin(self, request: messages.Begin) -> messages.Answer:
        for name, data in request.files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        sys.path[:] = path_with("", sys.path)  # modules next to the notebook can be imported, as in a kernel
        unload_modules(replaced_modules(request.files))
        self.cell_seconds = request.cell_seconds
        self.shell.outputs = Outputs(request.output_bytes)
        self.recordings.add(request.recordings)
        self.language = request.language
        if request.seed is not None:
            seed_all(request.seed)
        return messages.Done()

    def _run(self, request: messages.RunCell) -> messages.Answer:
        with use_recordings(self.recordings):
            ran = self.shell.run(request.text)
        error = ran.error
        described = None if error is None else (_type_name(error), message_of(error)[: messages.LONGEST_REASON])
        return messages.CellRan(msgspec.json.encode(ran.outputs), described, points_of(ran.value))

    def _subject(self, name: str, group: int) -> LocalSubject:
        """Return the subject of a group of calls: the object to which the name referred at the group's first call."""
        if group not in self.subjects:
            target = self.shell.user_ns[name]
            if not (inspect.isfunction(target) or inspect.isclass(target)):
                raise KeyError(name)
            # One subject for each object, because it reads the answer's code once.
            self.subjects[group] = self.by_target.setdefault(id(target), LocalSubject(target))
        return self.subjects[group]

    def _call(self, request: messages.MakeCall) -> messages.Answer:
        if request.group in self.with_problem:
            return messages.Failure("an earlier call of the group had a problem")
        subject = self._subject(request.name, request.group)
        call = None if request.call is None else msgspec.msgpack.decode(request.call, type=Call)
        result: ProgramText | Report
        try:
            with self.shell.separate_outputs(0):
                result = subject.program() if call is None else subject.report(call)
        except CellTimeoutError as error:
            problem = CallProblem("forward", "CellTimeoutError", str(error))
            result = (
                ProgramText("", f"CellTimeoutError: {error}", (), None) if call is None else Report(problem=problem)
            )
        if isinstance(result, Report) and result.problem is not None:
            self.with_problem.add(request.group)
        return messages.Returned(msgspec.msgpack.encode(result))

    def _describe(self, request: messages.DescribeName) -> messages.Answer:
        if request.name not in self.shell.user_ns:
            return messages.NameDescription("absent")
        target = self.shell.user_ns[request.name]
        kind = as_utf8(type(target).__name__)[:100]
        if isinstance(target, types.FunctionType):
            return messages.NameDescription("function", kind)
        if isinstance(target, type):
            return messages.NameDescription("class", "class")  # not the name of its metaclass
        if isinstance(target, types.ModuleType):
            return messages.NameDescription("module", kind)
        try:
            return messages.NameDescription("data", kind, encode(target))
        except NotPlain as error:
            return messages.NameDescription("data", kind, unsendable=str(error)[:200])

    def _call_student(self, request: messages.CallStudent) -> messages.Answer:
        function = self.shell.user_ns[request.name]
        with self.shell.separate_outputs(messages.LONGEST_PRINT) as outputs:
            return messages.Returned(call_function(function, request.arguments, outputs.text))

    def _record(self, request: messages.RecordAttempt) -> messages.Answer:
        subject = self.subjects[request.attempt.group]
        with self.shell.separate_outputs(0):
            return messages.Recorded(_encoded(subject, request.attempt, request.seconds * FOR_RUNS))


def _type_name(error: BaseException) -> str:
    return as_utf8(type(error).__name__)[:200]


def _failure(error: BaseException) -> messages.Failure:
    return messages.Failure(f"{_type_name(error)}: {message_of(error)}"[: messages.LONGEST_REASON])
