"""How grade cells reach the learner's names, which live in the submission's worker."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from autograder.check.message import Unsolved
from autograder.check.subject.call_report import Call, CallProblem, ProgramText, Report
from autograder.grade.sandbox.shell import CellTimeoutError
from autograder.grade.submission.cell_analysis import SubmissionText, global_reads
from autograder.grade.submission.connection.worker_client import WorkerClient, WorkerEnded
from autograder.grade.submission.stand_ins.function_text import function_code
from autograder.grade.submission.stand_ins.refusals import NotPlain
from autograder.grade.submission.stand_ins.session import Session
from autograder.grade.submission.stand_ins.source_facts import SourceFacts
from autograder.grade.submission.stand_ins.test_names import TestNames
from autograder.grade.submission.teacher.name_use import imported_packages
from autograder.grade.submission.trusted.attempt_recordings import AttemptRecordings
from autograder.grade.wire import messages
from autograder.grade.wire.shared.shared_folder import SharedFolder
from autograder.locale.translations import in_english
from autograder.tape.recording.schema import Recording

LONGEST_MESSAGE = 2000
NOTHING_KNOWN = SourceFacts()
Lookup = tuple[str, messages.NameDescription]


class Unreachable(Unsolved):
    """The grade cell needs something of the submission that is not there, or that cannot be sent from its process."""


class RemoteNames:
    """Looks up the learner's names in the worker, and their definitions in the text of the cells that have run.

    What a check asks about an answer's *text* (is it untouched? does it use a forbidden word?) is read here, on the trusted
    side, from the notebook; what the worker says about it is not used.

    Args:
        worker: the submission's process.
        facts: what the source allows to cross: its modules, and the operators of its classes.
        picture_seconds: for recording wrong answers.
    """

    def __init__(
        self, worker: WorkerClient, facts: SourceFacts = NOTHING_KNOWN, *, picture_seconds: float = 0.0
    ) -> None:
        self.worker, self._facts = worker, facts
        self._recordings = AttemptRecordings(worker, picture_seconds)
        self._cells: list[str] = []
        self._lookups: list[Lookup] = []
        self._only_data = True
        self._session = Session(worker, facts, self._code)

    @property
    def wrote_inputs(self) -> bool:
        """Whether a call has written into an argument of the test's own."""
        return self._session.wrote_inputs

    @property
    def unexpected_writes(self) -> bool:
        """Whether a call has written into an argument of the test's own, which was kept as it was."""
        return self._session.keep_inputs and self._session.wrote_inputs

    @property
    def refusal(self) -> str:
        """Why this test cannot be judged in two processes, whether or not it passed; "" if nothing was refused."""
        return self._session.refusal

    @property
    def has_received(self) -> bool:
        """Whether anything of the learner's has reached this process."""
        return self._session.has_received

    def refuse(self, reason: str) -> NotPlain:
        """Returns the exception to raise, and notes that this test cannot be judged in two processes."""
        return self._session.refuse(reason)

    def add_cell(self, text: str) -> None:
        """Adds a learner's cell that has run."""
        self._cells.append(text)

    def read_from(self, tests: frozenset[str]) -> list[str]:
        """Returns the names that functions of the learner's read, and that tests bind without sharing them."""
        cells = frozenset(self._cells)
        read = frozenset[str]().union(*map(global_reads, cells))
        imported = {name for cell in cells for name, _ in imported_packages(cell)}
        return sorted((read & tests) - imported - self._facts.answers - self._facts.read)

    def begin_test(self, keep_inputs: bool = False) -> None:
        """Begins a new list of lookups; with `keep_inputs`, no call changes the arguments that the test itself made."""
        self._lookups, self._only_data = [], True
        self._session.begin_test(keep_inputs)

    def watch(self, namespace: dict[str, Any], text: str) -> None:
        """Shares the test's names and files with the learner's code from here on, as one process would.

        Args:
            namespace: the test's, with the values that it was given.
            text: the test's.
        """
        # Not every name that the learner's text mentions: it could mention `expected`, and be told.
        self._session.watch(TestNames(namespace, text, self._facts.answers, self._facts.read))

    def share_folder(self, folder: Path, kept: Iterable[str]) -> None:
        """Shares the files of the tests' folder with the learner's code, which may not write the files to be kept."""
        self._session.folder = SharedFolder(folder, frozenset(kept))

    def share_classes(self, namespace: dict[str, Any]) -> None:
        """Has objects of the teacher's classes cross as such; `namespace` is where the teacher's cells run."""
        self._session.share_classes(namespace)

    def end_test(self) -> None:
        """Tells the learner's code what the test has bound or deleted last; call it before names are taken away."""
        self._session.end_test()

    def lookups(self) -> tuple[Lookup, ...] | None:
        """Returns what the test has looked up since it began, if all of it was data; None if it can call something."""
        return tuple(self._lookups) if self._only_data and self._session.has_only_data() else None

    def encoded_values(self, names: tuple[str, ...]) -> tuple[bytes, ...] | None:
        """Returns what each of these names refers to now, as `encoded` gives it; None if one cannot be had."""
        self._session.begin_test(keep_inputs=False)
        try:
            return tuple(encoded(self._described(name)[0]) for name in names)
        except Unsolved:
            return None

    def subject(self, name: str) -> RemoteSubject:
        """Returns the learner's function or class of that name; raises KeyError if there is none."""
        self._only_data = False
        try:
            kind = self.worker.ask(messages.AskName(name), messages.NameDescription).kind
        except WorkerEnded as error:
            raise _ended(name, error) from None
        if kind not in ("function", "class"):
            raise KeyError(name)
        return RemoteSubject(self.worker, name, SubmissionText(self._cells), self._recordings)

    def value(self, name: str) -> Any:
        """Returns the learner's value of that name: data as a copy, anything else as a stand-in.

        Raises:
            KeyError: there is no such name.
            Unreachable: it is something that cannot be sent.
        """
        found, value = self._described(name)
        self._lookups.append((name, found))
        if found.kind == "absent":
            raise KeyError(name)
        return value

    def _described(self, name: str) -> tuple[messages.NameDescription, Any]:
        try:
            return self._session.describe(name)
        except WorkerEnded as error:
            self._only_data = False  # that this program has ended says nothing about the next one
            raise _ended(name, error) from None
        except NotPlain as error:
            raise Unreachable(str(error)) from None

    def _code(self, qualified: str) -> types.CodeType | None:
        return function_code(self._cells, qualified)


class RemoteSubject:
    """Asks the worker to make calls; the form of each answer is checked before it is used."""

    def __init__(self, worker: WorkerClient, name: str, text: SubmissionText, recordings: AttemptRecordings) -> None:
        self._worker, self._name, self._text, self._recordings = worker, name, text, recordings
        self._has_ended = True

    def call(self, request: Call) -> Report:
        """Returns what the call did, as the worker reports it; if the worker ends, that is a problem of the answer."""
        try:
            report = self._worker.ask(messages.AskCall(self._name, request), messages.CallAnswer).report
            _well_formed(report)
        except WorkerEnded as error:
            return Report(problem=CallProblem("forward", "Ended", str(error)))
        except (KeyError, ValueError, TypeError) as error:
            return Report(problem=CallProblem("forward", "NoAnswer", str(error)[:LONGEST_MESSAGE]))
        self._has_ended = report.problem is None or report.problem.type != CellTimeoutError.__name__
        return msgspec.structs.replace(
            report,
            code=self._text.code(self._name),
            words=self._text.words(self._name),
            problem=_short(report.problem),
        )

    def uses(self, function: Callable[..., Any]) -> bool:
        """Returns False: what a test defines is in no reach of the worker."""
        return False

    def recording(self, request: Call, knows_gradients: bool = False) -> Recording | None:
        """Returns what autograd held during a call, as the worker says; None after one that was stopped. Evidence only."""
        return self._recordings.recording(self._name, request, knows_gradients) if self._has_ended else None

    def program_recording(self) -> Recording | None:
        """Returns None: the program ran in the worker."""
        return None

    def program(self) -> ProgramText:
        """Returns what recording the program found, as the worker reports it, and the words of its text, as read here."""
        try:
            program = self._worker.ask(messages.AskProgram(self._name), messages.ProgramAnswer).program
        except (WorkerEnded, KeyError) as error:
            raise Unreachable(
                in_english("{name} could not be run: {reason}", name=self._name, reason=str(error))
            ) from None
        words, code = self._text.words(self._name), self._text.code(self._name)
        return msgspec.structs.replace(program, words=words, code=code, error=program.error[:LONGEST_MESSAGE])


def encoded(found: messages.NameDescription) -> bytes:
    """Returns a form in which two values differ that a test may tell apart: to Python, 1, 1.0 and True are equal."""
    return msgspec.msgpack.encode(found)


def _ended(name: str, error: WorkerEnded) -> Unreachable:
    return Unreachable(
        in_english("{name} cannot be checked, because the program was ended: {reason}", name=name, reason=str(error))
    )


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
