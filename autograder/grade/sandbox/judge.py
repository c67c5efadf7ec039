"""The judge: runs a teacher's plain-data test, which reads the student's values and calls the student's functions through the lane."""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import random
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from autograder.check.learner import use_names
from autograder.check.message import NotAttempted, Unsolved
from autograder.check.subject.call_report import Call, ProgramText, Report
from autograder.check.subject.inputs import use_seed
from autograder.grade.sandbox.shell import CellRun, CellTimeoutError, Shell
from autograder.grade.sandbox.student_functions import Calls, StudentError, function_proxy
from autograder.grade.wire import messages
from autograder.grade.wire.plain_values import NotPlain, decode
from autograder.locale.languages import use_language
from autograder.locale.messages import Message
from autograder.locale.stored_messages import stored
from autograder.locale.translations import restored
from autograder.tape.recording.schema import Recording

Answer = TypeVar("Answer", bound=messages.Answer)


def points_of(value: Any) -> float | None:
    """Return the points for the value of a test's last expression; None if the value is not a score, which means full points.

    A number is partial credit, as in nbgrader. nbgrader 0.9.6 (`nbgrader.utils.determine_grade`) gives full points for
    nan, negative numbers and False; this function gives 0.
    """
    if value is None or isinstance(value, (str, bytes)) or value is True:
        return None
    try:
        number = float(value)
    except Exception:  # its `__float__` may be the student's; or an integer of any size
        return None
    return 0.0 if math.isnan(number) or number < 0 else number


class Unreachable(Unsolved):
    """A name of the student's code cannot be used by a test; the message gives the reason."""


class Judge:
    """Runs tests in the shell of this process, which does not run code of a submission; `ask` returns the reply to a request.

    It also looks up the student's names for the checks in a test.
    """

    def __init__(self, shell: Shell, ask: Callable[[Any], messages.Replied], language: str = "en") -> None:
        self._shell, self._ask, self._language = shell, ask, language

    def run(self, request: messages.RunTest) -> messages.TestRan:
        """Return the result of a test.

        If a student's function writes into an argument of the test, the test runs again in a fork, where such writes
        take effect as in one kernel, and the lower points count. A submission can therefore neither deceive a test by
        changing its inputs, nor pass one that forbids such changes.
        """
        calls = Calls(self._call_student)
        result = self._run(request, calls)
        if result.status == "passed" and calls.wrote_arguments:
            result = _lower(result, _in_fork(lambda: self._run(request, Calls(self._call_student, writes_back=True))))
        return result

    def _run(self, request: messages.RunTest, calls: Calls) -> messages.TestRan:
        try:
            bound_values = self._bind(request, calls)
        except Unreachable as error:
            return _not_judged(str(error))
        self._shell.execution_count = request.execution_count
        with use_names(self), use_seed(request.seed), use_language(self._language):
            ran = self._shell.run(request.text)
        for name, value in bound_values.items():
            if self._shell.user_ns.get(name) is value:
                del self._shell.user_ns[name]
        if calls.refusal:
            return _not_judged(calls.refusal)
        if isinstance(ran.error, NotPlain):  # such as `backward()` through a tensor that the student's process computed
            return _not_judged(
                Message(
                    "test.value_cannot_be_sent|the test needs a value that cannot be sent between processes: {kind}",
                    kind=str(ran.error),
                )
            )
        return _result(request, ran)

    def _call_student(self, name: str, arguments: bytes) -> bytes:
        try:
            return self._answer(messages.CallStudent(name, arguments), messages.Returned).data
        except Unreachable as error:
            reason = str(error)
        if reason.startswith("CellTimeoutError: "):
            raise CellTimeoutError(reason.partition(": ")[2])
        raise StudentError(Message("test.not_called|{name} was not called: {reason}", name=name, reason=reason))

    def _bind(self, request: messages.RunTest, calls: Calls) -> dict[str, Any]:
        """Bind the student's names for a test, and return them with their values. Raise Unreachable if one cannot cross."""
        bound_values: dict[str, Any] = {}
        for name, description in request.names.items():
            if description.kind == "absent":
                self._shell.user_ns.pop(name, None)
            elif description.kind == "function" and (description.text or "inspect" not in request.text):
                bound_values[name] = function_proxy(name, description.text, calls)
            elif description.kind == "module" and name in request.modules:
                bound_values[name] = importlib.import_module(request.modules[name])
            elif description.kind == "data" and description.unsendable is None:
                bound_values[name] = decode(description.value)
            else:
                raise Unreachable(cannot_leave(name, description))
        self._shell.user_ns.update(bound_values)
        return bound_values

    def subject(self, name: str) -> RemoteSubject:
        """Return the student's function or class of that name. Raise KeyError if it does not exist."""
        description = self._answer(messages.DescribeName(name), messages.NameDescription)
        if description.kind not in ("function", "class"):
            raise KeyError(name)
        # The number of the group must be unique even among forks of the judge; smaller numbers belong to the lane.
        return RemoteSubject(name, time.monotonic_ns(), self._call, lambda _: None)

    def value(self, name: str) -> Any:
        """Return the student's plain value of that name. Raise KeyError if it does not exist."""
        return plain_value(name, self._answer(messages.DescribeName(name), messages.NameDescription))

    def _call(self, asked: messages.MakeCall) -> Any:
        return msgspec.msgpack.decode(self._answer(asked, messages.Returned).data, type=form_of_result(asked))

    def _answer(self, request: Any, form: type[Answer]) -> Answer:
        reply = self._ask(request)
        if reply.answer is None:
            raise Unreachable(restored(reply.reason, reply.messages))
        if isinstance(reply.answer, messages.Failure):
            raise Unreachable(reply.answer.reason)
        if not isinstance(reply.answer, form):
            raise Unreachable(messages.OTHER_REQUEST)
        return reply.answer


def plain_value(name: str, description: messages.NameDescription) -> Any:
    """Return the value of a name. Raise KeyError if it does not exist, or Unreachable if it is not plain."""
    if description.kind == "absent":
        raise KeyError(name)
    if description.kind != "data" or description.unsendable is not None:
        raise Unreachable(cannot_leave(name, description))
    return decode(description.value)


def cannot_leave(name: str, described: messages.NameDescription) -> Message:
    """Return the reason why a test cannot read a value."""
    kind = described.unsendable or f"a {described.type_name}"
    kind += " that no `def` in the notebook defines" if described.kind == "function" else ""
    return Message("test.value_cannot_leave|the value of {name} cannot leave its process: {kind}", name=name, kind=kind)


def seed_all(seed: int) -> None:
    """Seed the random generators of Python, NumPy and PyTorch."""
    random.seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed & 0xFFFFFFFF)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(seed)


def _result(request: messages.RunTest, ran: CellRun) -> messages.TestRan:
    outputs, error = msgspec.json.encode(ran.outputs), ran.error
    if error is None:
        return messages.TestRan(outputs, "passed", points_of(ran.value), is_hidden=bool(request.hidden_lines))
    status: Any = "not attempted" if isinstance(error, NotAttempted) else "incorrect"
    status = "timed out" if isinstance(error, CellTimeoutError) else status
    whole = isinstance(error, (Unsolved, StudentError, CellTimeoutError))  # its message is sufficient
    reason: str
    if isinstance(error, NameError) and request.names.get(error.name or "", _PRESENT).kind == "absent":
        reason = Message("test.name_not_defined|{name} is not defined when the test runs", name=error.name)
    else:
        reason = str(error) if whole else "".join(traceback.format_exception_only(error)).strip()
    line, last = _lines(error)
    hidden = bool(request.hidden_lines) and (
        line is None or any(first <= line <= end for first, end in request.hidden_lines)
    )
    return messages.TestRan(
        outputs, status, 0.0, reason[: messages.LONGEST_REASON], stored(messages.shortened(reason)), hidden, last
    )


_PRESENT = messages.NameDescription("data")


def _lines(error: BaseException) -> tuple[int | None, int | None]:
    """Return the line of the test's statement that raised, and the innermost line of the test; None if it did not compile."""
    frames = list(traceback.walk_tb(error.__traceback__))
    top = [(frame.f_code.co_filename, line) for frame, line in frames if frame.f_code.co_name == "<module>"]
    if not top:
        return None, None
    numbers = [line for frame, line in frames if frame.f_code.co_filename == top[0][0]]
    return top[0][1], numbers[-1]  # a module that the test imports also has such a frame


def _not_judged(reason: str) -> messages.TestRan:
    message = Message("test.not_judged|this test could not be judged: {reason}", reason=reason)
    reason = message[: messages.LONGEST_REASON]
    return messages.TestRan(b"[]", "not judged", reason=reason, messages=stored(messages.shortened(message)))


def _lower(first: messages.TestRan, second: messages.TestRan | None) -> messages.TestRan:
    if second is None or second.status == "not judged":
        return first
    if second.status != "passed":
        return second
    return min(first, second, key=lambda result: float("inf") if result.points is None else result.points)


def _in_fork(run: Callable[[], messages.TestRan]) -> messages.TestRan | None:
    """Return the result of `run` in a fork of this process, which waits; None if the fork ends early."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException), os.fdopen(writing, "wb") as pipe:
            pipe.write(msgspec.msgpack.encode(run()))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    try:
        return msgspec.msgpack.decode(data, type=messages.TestRan)
    except msgspec.MsgspecError:
        return None


class RemoteSubject:
    """A student's function or class in another process, whose calls form a group; `result` returns the Report or ProgramText of one."""

    def __init__(
        self,
        name: str,
        group: int,
        result: Callable[[messages.MakeCall], Any],
        recorded: Callable[[messages.Attempt], Recording | None],
    ) -> None:
        self._name, self._group, self._result, self._recorded = name, group, result, recorded
        self._timed_out = False

    def call(self, request: Call) -> Report:
        """Return the report of a call."""
        report: Report = self._result(messages.MakeCall(self._name, msgspec.msgpack.encode(request), self._group))
        self._timed_out = report.problem is not None and report.problem.type == CellTimeoutError.__name__
        return report

    def program(self) -> ProgramText:
        """Return the outcome of the function without arguments, as the student's process reports it."""
        program: ProgramText = self._result(messages.MakeCall(self._name, None, self._group))
        return program

    def program_recording(self) -> Recording | None:
        """Return the recording of `program` from the student's process, or None."""
        return self._recorded(messages.Attempt(self._group, None))

    def recording(self, request: Call, knows_gradients: bool = False) -> Recording | None:
        """Return the recording of a call; None if it cannot be recorded, or the call was stopped."""
        attempt = messages.Attempt(self._group, msgspec.msgpack.encode(request), knows_gradients)
        return None if self._timed_out else self._recorded(attempt)

    def uses(self, function: Callable[..., Any]) -> bool:
        """Return False, because the student cannot access a function of the test."""
        return False


def form_of_result(asked: messages.MakeCall) -> type[ProgramText | Report]:
    """Return the type of the result of a call."""
    return ProgramText if asked.call is None else Report
