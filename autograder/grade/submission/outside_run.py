"""A run in which the student's cells run in a worker, and the tests are judged outside of it.

Declarative cells are compared here with their plans, and plain-data cells run in a judge. Requests are sent to the
worker in batches: all requests between two plain-data cells form one batch.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import nbformat
from nbformat import NotebookNode

from autograder.check.message import NotAttempted, Unsolved
from autograder.check.subject.call_report import ProgramText, Report
from autograder.grade.sandbox.judge import RemoteSubject, Unreachable, form_of_result, plain_value
from autograder.grade.sandbox.shell import Shell
from autograder.grade.submission.cell_analysis import SubmissionText, cell_names, names_bound_before
from autograder.grade.submission.cell_planner import PlannedCell, SourcePlans, cell_seed
from autograder.grade.submission.notebook_grade import CellGrade, Status
from autograder.grade.submission.server_client import TEST_TIME_FACTOR, ServerClient, WorkerClient, WorkerEnded
from autograder.grade.submission.submission_run import SubmissionRun, graded_test, needs_manual_grade
from autograder.grade.submission.teacher.cell_kinds import CellKind
from autograder.grade.submission.teacher.source import AssignmentSource, GradingPlan
from autograder.grade.submission.teacher.source_cells import SourceCell
from autograder.grade.wire import messages
from autograder.locale.languages import language
from autograder.locale.messages import Message
from autograder.locale.stored_messages import stored
from autograder.locale.translations import restored
from autograder.tape.recording.schema import Recording, checked_recording

UNDEFINED_NAME = re.compile(r"NameError: name '(\w+)' is not defined")
LONGEST_MESSAGE = 2000
LONGEST_RECORDING = 3.0  # seconds of one wrong answer
PART = 2  # at least half of a submission's time is left to its own cells and tests


@dataclass(frozen=True)
class SubmissionInputs:
    """The data that all runs of one submission share."""

    source: AssignmentSource
    cells: list[NotebookNode]
    files: dict[str, bytes]  # the files next to it
    own_modules: tuple[str, ...]  # the sources of the submission's own Python files, which its cells may import or run
    seed: int  # the seed from which the tests' inputs are drawn
    plan: GradingPlan  # the grading plan of its tests
    pictures: bool  # whether wrong answers are recorded


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
        self._answers: dict[messages.Request, messages.Answer | None] = dict.fromkeys(requests)
        self._answers |= reversed([*zip(requests, answers, strict=False)])  # of equal requests, the first answer counts
        self.text, self._worker = text, worker
        self.attempts: list[messages.Attempt] = []
        self.recordings: dict[messages.Attempt, Recording | None] = {}

    def subject(self, name: str) -> RemoteSubject:
        """Return the student's function or class of that name. Raise KeyError if it does not exist."""
        first = next(iter(self._answers.values()), None)
        if isinstance(first, messages.Failure) and first.reason.startswith("KeyError: "):
            raise KeyError(name)
        group = next((request.group for request in self._answers if isinstance(request, messages.MakeCall)), 0)
        return RemoteSubject(name, group, self._result, self._recorded)

    def value(self, name: str) -> Any:
        """Return the student's plain value of that name. Raise KeyError if it does not exist."""
        return plain_value(name, self.answer(messages.DescribeName(name), messages.NameDescription, name))

    def answer(self, request: messages.Request, form: type[Any], name: str) -> Any:
        """Return the answer to a request, which is sent now if necessary. Raise Unreachable if it cannot be answered."""
        try:
            if request not in self._answers:
                (self._answers[request],) = self._worker.answers([request])
            if (answer := self._answers[request]) is None:
                raise WorkerEnded(self._worker.ended or "")
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
    """Return a result with the source of the student's code, which that process could forge. Raise Unreachable if it is damaged."""
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


@dataclass
class _PendingComparison:
    """A declarative test whose requests have been answered."""

    cell: NotebookNode
    source: SourceCell
    planned: PlannedCell
    # one for each plan; none if the program had ended when the first request was due
    answers: list[StudentAnswers] = field(default_factory=list)


_Step = tuple[list[messages.Request], Callable[[Iterator[messages.Answer]], None]]
"""Requests to the worker, and the function that takes their answers from the iterator."""


class OutsideRun:
    """Runs the cells of one submission in a new worker, and its tests; `run` gets grades and outputs, `shell` those of comparisons."""

    def __init__(
        self,
        work: SubmissionInputs,
        plans: SourcePlans,
        run: SubmissionRun,
        worker: WorkerClient,
        shell: Shell,
        judges: ServerClient,
    ) -> None:
        self._work, self._plans, self._run, self._worker, self._shell = work, plans, run, worker, shell
        self._judges = judges
        self._texts = list(work.own_modules)
        self._submitted = {cell.source.strip() for cell in work.cells if cell.cell_type == "code"}
        self._steps: list[_Step] = []
        self._declared: list[_PendingComparison] = []
        self._judge: WorkerClient | None = None
        self._set_up: dict[int, str | None] = {}
        self._bound_by_tests: set[str] = set()

    def run_cells(self) -> None:
        """Run everything, and store the grades and outputs in the run."""
        kinds = self._work.plan.kinds
        with contextlib.ExitStack() as stack:
            for cell, source_cell in self._run.cells:
                if source_cell is not None and source_cell.kind == "test":
                    self._add_cell(cell, self._work.source.for_students(source_cell), keeps_outputs=False)
                    kind = "" if source_cell.id in self._work.plan.nobody else kinds.get(source_cell.id)
                    if kind == "declarative":
                        self._add_declarative(cell, source_cell)
                    elif kind == "plain data":
                        self._run_plain(cell, source_cell, stack)
                    self._bound_by_tests |= cell_names(source_cell.text).binds
                elif cell.cell_type == "code":
                    self._add_cell(cell, cell.source)
                    self._texts.append(cell.source)
            self._flush()
            self._compare_recorded()

    def _add_cell(self, cell: NotebookNode, text: str, *, keeps_outputs: bool = True) -> None:
        shown = cell if keeps_outputs else NotebookNode(cell)
        requests: list[messages.Request] = [messages.RunCell(text)] if text.strip() else []

        def take(answers: Iterator[messages.Answer]) -> None:
            self._run.next_cell(shown, text, answers, self._worker)
            cell.execution_count = self._run.count

        self._steps.append((requests, take))

    def _flush(self) -> None:
        """Send the waiting requests when the first answer is needed, and handle each answer as it arrives."""
        steps, self._steps = self._steps, []
        answers = self._worker.answers([request for requests, _ in steps for request in requests])
        for _, take in steps:
            take(answers)

    def _take(self, requests: list[messages.Request], answers: Iterator[messages.Answer]) -> list[messages.Answer]:
        """Return the answers to requests; fewer if the program has ended before, or ends now."""
        taken: list[messages.Answer] = []
        if self._run.ended is None:
            try:
                taken += (next(answers) for _ in requests)
            except WorkerEnded as error:
                self._run.ended = str(error)
        return taken

    def _add_declarative(self, cell: NotebookNode, source_cell: SourceCell) -> None:
        planned = self._plans[source_cell.id]
        if planned.failure is not None:
            self._run.grades[source_cell.id] = needs_manual_grade(source_cell, planned.failure, source_cell.hides)
            return
        declared = _PendingComparison(cell, source_cell, planned)
        self._declared.append(declared)
        text = SubmissionText(list(self._texts))

        def take(answers: Iterator[messages.Answer]) -> None:
            is_reached = self._run.ended is None or not any(planned.requests)
            for requests in planned.requests if is_reached else ():
                taken = self._take(list(requests), answers)
                declared.answers.append(StudentAnswers(requests, taken, text, self._worker))
            if not planned.makes_extra_call:
                self._compare(declared)

        self._steps.append(([request for requests in planned.requests for request in requests], take))
        if planned.makes_extra_call:
            self._flush()
            self._compare(declared)

    def _compare_recorded(self) -> None:
        """Record wrong answers of declarative cells, and compare these again."""
        asking = [declared for declared in self._declared if any(answer.attempts for answer in declared.answers)]
        if asking and self._record([answer for declared in asking for answer in declared.answers]):
            for declared in asking:
                self._compare(declared)

    def _record(self, answers: list[StudentAnswers]) -> bool:
        limits, seconds_left = self._worker.limits, self._worker.seconds_left
        seconds = min(limits.picture_seconds if self._work.pictures else 0.0, limits.submission_seconds / PART)
        if seconds <= 0 or seconds_left < limits.submission_seconds / PART or self._run.ended is not None:
            return False
        end = time.monotonic() + seconds
        recordings = {}
        for attempt in dict.fromkeys(attempt for answer in answers for attempt in answer.attempts):
            if (left := end - time.monotonic()) <= 0:
                break
            request = messages.RecordAttempt(attempt, min(LONGEST_RECORDING, left))
            with contextlib.suppress(WorkerEnded, KeyError):
                recordings[attempt] = checked_recording(self._worker.ask(request, messages.Recorded).data)
        for answer in answers:
            answer.recordings = {attempt: recordings.get(attempt) for attempt in answer.attempts}
        return any(recordings.values())

    def _compare(self, declared: _PendingComparison) -> None:
        if not declared.answers:
            return  # its grade is that of a test that was not run
        start, error, line = time.monotonic(), None, 0
        planned = declared.planned
        with self._shell.separate_outputs(self._worker.limits.output_bytes) as outputs:
            for plan, answer, place in zip(planned.plans, declared.answers, planned.lines, strict=True):
                try:
                    plan.compare(answer)
                except Unsolved as unsolved:
                    error, line = unsolved, place
                    outputs.error(type(error).__name__, str(error), error._render_traceback_())
                    break
        declared.cell.outputs = [nbformat.from_dict(output) for output in outputs.take()]
        self._run.grades[declared.source.id] = _declared_grade(declared.source, error, line, time.monotonic() - start)

    def _run_plain(self, cell: NotebookNode, source_cell: SourceCell, stack: contextlib.ExitStack) -> None:
        kind = self._with_changed_cells(source_cell)
        names = sorted(kind.names)
        requests: list[messages.Request] = [messages.DescribeName(name) for name in names]
        answers: list[messages.Answer] = []
        self._steps.append((requests, lambda arriving: answers.extend(self._take(requests, arriving))))
        self._flush()
        if self._run.ended is not None:
            return
        known = zip(names, answers, strict=True)
        described = {
            name: self._with_text(name, answer)
            for name, answer in known
            if isinstance(answer, messages.NameDescription)
        }
        try:
            if self._judge is None:
                source, seed = self._work.source, cell_seed(self._work.seed, "")
                worker = self._judges.worker(source.files, language=language(), seed=seed)
                self._judge = stack.enter_context(worker)
            self._run.grades[source_cell.id] = self._judged(self._judge, cell, source_cell, kind, described)
        except (WorkerEnded, KeyError) as error:
            message = Message("test.not_judged|this test could not be judged: {reason}", reason=str(error))
            self._run.grades[source_cell.id] = needs_manual_grade(source_cell, message, source_cell.hides)
            if isinstance(error, WorkerEnded):
                self._judge = None  # the next test gets a new judge
                self._set_up.clear()

    def _with_changed_cells(self, source_cell: SourceCell) -> CellKind:
        """Return the kind of a test, adding the names of the teacher's cells that the student has changed to the student's names.

        Students may change a cell that is not locked. The names that it binds are then theirs, as in one kernel, and so
        are the values that a later cell computes from them.
        """
        source, kind = self._work.source, self._work.source.kinds[source_cell.id]
        changed, theirs = set[int](), set[str]()
        for index in kind.setup:
            cell, names = source.cells[index], cell_names(source.cells[index].text)
            if theirs & names.needs or (not cell.is_locked and cell.text.strip() not in self._submitted):
                changed.add(index)
                theirs |= names.binds
        if not changed:
            return kind
        setup_names = [cell_names(source.cells[index].text) for index in kind.setup if index not in changed]
        needed = cell_names(source_cell.text).needs.union(*(names.needs for names in setup_names))
        modules = dict(kind.modules)
        for index in changed:
            modules |= cell_names(source.cells[index].text).imports
        setup = tuple(index for index in kind.setup if index not in changed)
        return replace(kind, names=kind.names | (theirs & needed), setup=setup, modules=tuple(modules.items()))

    def _judged(
        self,
        judge: WorkerClient,
        cell: NotebookNode,
        source_cell: SourceCell,
        kind: CellKind,
        names: dict[str, messages.NameDescription],
    ) -> CellGrade:
        start = time.monotonic()
        failure = self._run_setup(judge, kind.setup)
        request = messages.RunTest(
            text=source_cell.text,
            names=names,
            modules=dict(kind.modules),
            seed=cell_seed(self._work.seed, source_cell.id),
            hidden_lines=list(source_cell.hidden_lines),
            execution_count=self._run.count,
        )
        result = judge.run_test(request, self._reply, judge.limits.cell_seconds * TEST_TIME_FACTOR)
        cell.outputs = judge.outputs(result)
        if failure is not None and result.status == "incorrect":  # as with the model answers
            reason = f"{result.reason} (the teacher's cell ended with {failure})"
            result = msgspec.structs.replace(result, reason=reason[: messages.LONGEST_REASON])
        missing = UNDEFINED_NAME.search(result.reason) if result.status == "incorrect" else None
        bound = self._bound_by_tests | names_bound_before(source_cell.text, result.line or 0)
        if missing and missing[1] in bound - cell_names(source_cell.text).needs:
            message = Message("test.reads_names|the answers read {names}, which only a test defines", names=missing[1])
            return needs_manual_grade(source_cell, message, source_cell.hides)
        return _plain_grade(source_cell, result, time.monotonic() - start)

    def _run_setup(self, judge: WorkerClient, cells: tuple[int, ...]) -> str | None:
        """Run the teacher's cells that a test needs and that have not run yet; return the error of the first one that failed."""
        for index in cells:
            if index not in self._set_up:
                ran = judge.ask(messages.RunCell(self._work.source.cells[index].text), messages.CellRan)
                self._set_up[index] = None if ran.error is None else f"{ran.error[0]}: {ran.error[1]}"
        return next((self._set_up[index] for index in cells if self._set_up[index] is not None), None)

    def _reply(self, asked: messages.Asked) -> messages.Replied:
        request = asked.request
        try:
            (answer,) = self._worker.answers([request])
            return messages.Replied(self._with_source(request, answer))
        except (Unreachable, WorkerEnded) as error:
            if isinstance(error, WorkerEnded):
                self._run.ended = self._run.ended or str(error)
            return messages.Replied(None, str(error)[:], stored(str(error)))

    def _with_source(self, request: Any, answer: messages.Answer) -> messages.Answer:
        """Return the answer with the source of the student's code, which this process reads from the notebook."""
        if isinstance(answer, messages.NameDescription):
            return self._with_text(request.name, answer)
        if isinstance(answer, messages.Returned) and isinstance(request, messages.MakeCall):
            result = decoded_result(answer.data, request, SubmissionText(self._texts))
            return messages.Returned(msgspec.msgpack.encode(result))
        return answer

    def _with_text(self, name: str, description: messages.NameDescription) -> messages.NameDescription:
        """Return a description with the source of a function, which the student's process could forge."""
        if description.kind != "function":
            return description
        return msgspec.structs.replace(description, text=SubmissionText(self._texts).definition(name))


def _declared_grade(source_cell: SourceCell, error: Unsolved | None, line: int, seconds: float) -> CellGrade:
    if error is None:
        return graded_test(source_cell, "declarative", None, seconds=seconds, hidden=source_cell.hides)
    hidden = any(first <= line <= last for first, last in source_cell.hidden_lines)
    failure: Status = "not attempted" if isinstance(error, NotAttempted) else "incorrect"
    reason = messages.shortened(str(error))
    return graded_test(source_cell, "declarative", 0.0, reason, failure, seconds=seconds, hidden=hidden, line=line)


def _plain_grade(source_cell: SourceCell, result: messages.TestRan, seconds: float) -> CellGrade:
    reason = restored(result.reason, result.messages)
    if result.status == "not judged":
        return needs_manual_grade(source_cell, reason, source_cell.hides)
    failure = None if result.status == "passed" else result.status
    about = {"seconds": seconds, "hidden": result.is_hidden, "line": result.line or 0}
    return graded_test(source_cell, "plain data", result.points, reason, failure, **about)
