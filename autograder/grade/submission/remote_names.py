"""How grade cells reach the learner's names, which live in the submission's worker."""

from __future__ import annotations

from typing import Any

import msgspec

from autograder.check.message import Unsolved
from autograder.check.subject.call_report import Call, CallProblem, ProgramText, Report
from autograder.grade.submission.cell_analysis import SubmissionText
from autograder.grade.submission.proxies import LearnerFunction, TestInputs
from autograder.grade.submission.worker_client import WorkerClient, WorkerEnded
from autograder.grade.wire import messages
from autograder.grade.wire.wire_values import Unsendable, from_plain

LONGEST_MESSAGE = 2000
Lookup = tuple[str, messages.NameDescription]


class Unreachable(Unsolved):
    """The grade cell needs something of the submission that is not there, or that cannot be sent from its process."""


class RemoteNames:
    """Looks up the learner's names in the worker, and their definitions in the text of the cells that have run.

    What a check asks about an answer's *text* (is it untouched? does it use a forbidden word?) is read here, on the trusted
    side, from the notebook; what the worker says about it is not used.
    """

    def __init__(self, worker: WorkerClient) -> None:
        self.worker = worker
        self._cells: list[str] = []
        self._lookups: list[Lookup] = []
        self._only_data = True
        self._given = TestInputs()

    @property
    def unexpected_writes(self) -> bool:
        """Whether a call has written into an argument of the test's own, which was kept as it was."""
        return self._given.keep and self._given.written

    @property
    def wrote_inputs(self) -> bool:
        """Whether a call has written into an argument of the test's own."""
        return self._given.written

    def add_cell(self, text: str) -> None:
        """Adds a learner's cell that has run."""
        self._cells.append(text)

    def begin_test(self, keep_inputs: bool = False) -> None:
        """Begins a new list of lookups; with `keep_inputs`, no call changes the arguments that the test itself made."""
        self._lookups, self._only_data = [], True
        self._given = TestInputs(keep_inputs)

    def lookups(self) -> tuple[Lookup, ...] | None:
        """Returns what the test has looked up since it began, if all of it was data; None if it can call something."""
        return tuple(self._lookups) if self._only_data else None

    def are_unchanged(self, lookups: tuple[Lookup, ...]) -> bool:
        """Returns whether these names still have these values."""
        try:
            # Not `==`: to Python, 1, 1.0 and True are equal, and a test may tell them apart.
            return all(_encoded(self._describe(name)) == _encoded(description) for name, description in lookups)
        except Unreachable:
            return False

    def subject(self, name: str) -> RemoteSubject:
        """Returns the learner's function or class of that name; raises KeyError if there is none."""
        self._only_data = False
        if self._describe(name).kind not in ("function", "class"):
            raise KeyError(name)
        return RemoteSubject(self.worker, name, SubmissionText(self._cells))

    def value(self, name: str) -> Any:
        """Returns the learner's value of that name: data as a copy, a function as a proxy that calls it in the worker.

        Raises:
            KeyError: there is no such name.
            Unreachable: it is something that cannot be sent.
        """
        found = self._describe(name)
        self._lookups.append((name, found))
        self._only_data = self._only_data and found.kind in ("absent", "data")
        if found.kind == "absent":
            raise KeyError(name)
        if found.kind == "function":
            return LearnerFunction(self.worker, name, found.type_name[:100], self._given)
        if found.kind == "data":
            received = _received(found.value)
            self._given.borrowed.add(id(received))
            return received
        reason = str(found.value) if found.kind == "other" else str(Unsendable(type))
        raise Unreachable(f"{name}: {reason}")

    def _describe(self, name: str) -> messages.NameDescription:
        try:
            return self.worker.ask(messages.AskName(name), messages.NameDescription)
        except WorkerEnded as error:
            self._only_data = False  # that this program has ended says nothing about the next one
            raise Unreachable(f"{name} cannot be checked, because the program was ended: {error}") from None


class RemoteSubject:
    """Asks the worker to make calls; the form of each answer is checked before it is used."""

    def __init__(self, worker: WorkerClient, name: str, text: SubmissionText) -> None:
        self._worker, self._name, self._text = worker, name, text

    def call(self, request: Call) -> Report:
        """Returns what the call did, as the worker reports it; if the worker ends, that is a problem of the answer."""
        try:
            report = self._worker.ask(messages.AskCall(self._name, request), messages.CallAnswer).report
            _well_formed(report)
        except WorkerEnded as error:
            return Report(problem=CallProblem("forward", "Ended", str(error)))
        except (KeyError, ValueError, TypeError) as error:
            return Report(problem=CallProblem("forward", "NoAnswer", str(error)[:LONGEST_MESSAGE]))
        return msgspec.structs.replace(report, code=self._text.code(self._name), problem=_short(report.problem))

    def program(self) -> ProgramText:
        """Returns what recording the program found, as the worker reports it, and the words of its text, as read here."""
        try:
            program = self._worker.ask(messages.AskProgram(self._name), messages.ProgramAnswer).program
        except (WorkerEnded, KeyError) as error:
            raise Unreachable(f"{self._name} could not be run: {error}") from None
        words, code = self._text.words(self._name), self._text.code(self._name)
        return msgspec.structs.replace(program, words=words, code=code, error=program.error[:LONGEST_MESSAGE])


_encoded = msgspec.msgpack.encode


def _received(plain: Any) -> Any:
    try:
        return from_plain(plain)
    except ValueError as error:
        raise Unreachable(str(error)) from None


def _well_formed(report: Report) -> None:
    """Raises ValueError where an array's bytes do not fit its dtype and shape."""
    for arrays in (report.outputs, report.after, report.gradients):
        for values in arrays.values():
            if values is not None:
                values.tensor()


def _short(problem: CallProblem | None) -> CallProblem | None:
    return problem and msgspec.structs.replace(
        problem,
        type=problem.type[:100],
        message=problem.message[:LONGEST_MESSAGE],
        text=problem.text[:200],
    )
