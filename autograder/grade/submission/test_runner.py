"""Runs the teacher's own cells in this process: tests, and the cells that define what tests use. Never a learner's text."""

from __future__ import annotations

import hashlib
import math
import time
import traceback
from collections.abc import Hashable
from typing import Any, NamedTuple

import torch

from autograder.check.learner import use_names
from autograder.check.memo import use_memo
from autograder.check.message import NotAttempted, Unsolved
from autograder.check.subject.inputs import use_seed
from autograder.grade.sandbox.shell import Shell
from autograder.grade.submission.notebook_grade import CellGrade, Status
from autograder.grade.submission.remote_names import Lookup, RemoteNames, Unreachable
from autograder.grade.submission.source import AssignmentSource, SourceCell
from autograder.grade.wire.limits import Limits
from autograder.grade.wire.outputs import Outputs

LONGEST_REASON = 4000
TEST_TIME_FACTOR = 4  # a test may make several calls, and each may take as long as a cell
BEGIN, END = "BEGIN HIDDEN TESTS", "END HIDDEN TESTS"  # nbgrader's defaults (ClearHiddenTests, 0.9.6)


class TestResult(NamedTuple):
    """The grade that a test gives, and the outputs to show below it."""

    grade: CellGrade
    outputs: list[dict[str, Any]]

    def with_count(self, execution_count: int) -> TestResult:
        """Returns the same result with another execution count."""
        numbered = [
            output | {"execution_count": execution_count} if "execution_count" in output else output
            for output in self.outputs
        ]
        return TestResult(self.grade, numbered)


class TestSetup(NamedTuple):
    """What all submissions share that are tested with one source and seed.

    Attributes:
        source: the teacher's notebook.
        seed: from which inputs are drawn.
        memories: what the checks of each test cell computed and may use again.
        results: of each test cell: the lookups of a test that saw nothing but data, and its result.
    """

    source: AssignmentSource
    seed: int
    memories: dict[str, dict[Hashable, Any]]
    results: dict[str, list[tuple[tuple[Lookup, ...], TestResult]]]


class TestRunner:
    """Tests one submission after another in a shell; `for_submission` gives each a clean namespace."""

    def __init__(self, shell: Shell, limits: Limits) -> None:
        self._shell, self._limits = shell, limits
        self._setups: dict[tuple[str, int], TestSetup] = {}

    def for_submission(self, source: AssignmentSource, names: RemoteNames, seed: int) -> SubmissionTests:
        """Returns the tests of one submission; nothing that the previous one left behind is visible to them."""
        self._shell.forget()
        self._shell.outputs = Outputs(self._limits.output_bytes)
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)
        setup = self._setups.setdefault((source.digest, seed), TestSetup(source, seed, {}, {}))
        return SubmissionTests(self._shell, setup, names, self._limits.cell_seconds * TEST_TIME_FACTOR)


class SubmissionTests:
    """The tests of one submission, in the order of its notebook."""

    def __init__(self, shell: Shell, setup: TestSetup, names: RemoteNames, seconds: float) -> None:
        self._shell, self._setup, self._names, self._seconds = shell, setup, names, seconds
        self._provided: set[str] = set()

    def run(self, cell: SourceCell, execution_count: int) -> TestResult:
        """Returns what a test finds, given the learner's names as they are now."""
        # A test that looks up nothing but data has the same result for the same data.
        if self._setup.source.stands_alone(cell):
            for lookups, result in self._setup.results.get(cell.id, []):
                if self._names.are_unchanged(lookups):
                    return result.with_count(execution_count)
        self._names.begin_test()
        result = self._run(cell, execution_count)
        seen = self._names.lookups()
        if seen is not None and not result.grade.reason.startswith(
            "CellTimeoutError"
        ):  # the machine may just have been busy
            self._setup.results.setdefault(cell.id, []).append((seen, result))
        return result

    def _run(self, cell: SourceCell, execution_count: int) -> TestResult:
        start = time.monotonic()
        self._shell.execution_count = execution_count
        torch.default_generator.manual_seed(self._setup.seed & (2**63 - 1))
        borrowed, unreachable = self._provide(cell)
        # What the learner defined may compute the expected values of this test, so they are kept for this submission only.
        memory = {} if borrowed else self._setup.memories.setdefault(cell.id, {})
        with use_names(self._names), use_seed(_cell_seed(self._setup.seed, cell.id)), use_memo(memory):
            ran = self._shell.run(cell.text, self._seconds)
        for name, value in borrowed.items():
            if self._shell.user_ns.get(name) is value:
                del self._shell.user_ns[name]
        error, outputs = ran.error, ran.outputs
        if isinstance(error, NameError) and error.name in unreachable:
            error = unreachable[error.name]
            outputs = [_error_output(error) if output["output_type"] == "error" else output for output in outputs]
        return TestResult(_grade(cell, error, ran.value, time.monotonic() - start), outputs)

    def _provide(self, cell: SourceCell) -> tuple[dict[str, Any], dict[str, Unsolved]]:
        """Binds the names that a cell uses: the teacher's by running the teacher's cells, the learner's through the worker.

        Returns:
            The learner's names with their values, and the error for each name that cannot be had.
        """
        borrowed: dict[str, Any] = {}
        unreachable: dict[str, Unsolved] = {}
        for name in sorted(self._setup.source.needs(cell) - self._shell.user_ns.keys()):
            provider = self._setup.source.provider(name, cell)
            if provider is not None:
                self._run_once(provider)
                continue
            try:
                self._shell.user_ns[name] = borrowed[name] = self._names.value(name)
            except KeyError:
                unreachable[name] = Unreachable(f"{name}: nothing of this name is defined when the test runs")
            except Unreachable as error:
                unreachable[name] = error
        return borrowed, unreachable

    def _run_once(self, cell: SourceCell) -> None:
        key = repr((cell.id, cell.text))
        if key in self._provided:
            return
        self._provided.add(key)
        self._provide(cell)
        with self._shell.separate_outputs(0):
            self._shell.run_cell(cell.text, store_history=False)


def _cell_seed(seed: int, cell: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed} {cell}".encode()).digest()[:8])


def _grade(cell: SourceCell, error: BaseException | None, value: Any, seconds: float) -> CellGrade:
    most = cell.points
    if error is not None:
        status: Status = "not attempted" if isinstance(error, NotAttempted) else "incorrect"
        reason = str(error) if isinstance(error, Unsolved) else "".join(traceback.format_exception_only(error)).strip()
        hidden = cell.hides and _in_hidden_part(cell.text, error)
        return CellGrade(
            status=status,
            points=0.0,
            max_points=most,
            reason=reason[:LONGEST_REASON],
            seconds=seconds,
            hidden=hidden,
        )
    points, reason = _partial_credit(value, most)
    status = "correct" if points == most else "partly" if points else "incorrect"
    return CellGrade(status=status, points=points, max_points=most, reason=reason, seconds=seconds, hidden=cell.hides)


def _partial_credit(value: Any, most: float) -> tuple[float, str]:
    """Returns the points for the value of a test's last expression: a number is partial credit, as in nbgrader.

    nbgrader 0.9.6 (`nbgrader.utils.determine_grade`) gives full marks for nan and negative numbers, and raises for a number
    above the maximum; here these give none and the maximum.
    """
    if value is None or isinstance(value, (str, bytes)) or value is True:
        return most, ""
    if value is False:
        return 0.0, "the test's last line is False"
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError):
        return most, ""
    if math.isnan(number) or number < 0:
        return 0.0, f"the test's last line is {number:g}, which is not a number of points"
    return min(number, most), "" if number >= most else f"the test gave {number:g} of {most:g} points"


def _in_hidden_part(text: str, error: BaseException) -> bool:
    """Whether the statement that raised is in a hidden part of the test."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code.co_name == "<module>"]
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame in frames]
    if not lines:
        return True  # a test that does not even compile: show nothing of it
    before = text.splitlines()[: lines[-1]]
    marks = [BEGIN if BEGIN in line else END for line in before if BEGIN in line or END in line]
    return bool(marks) and marks[-1] == BEGIN


def _error_output(error: Unsolved) -> dict[str, Any]:
    lines = str(error).splitlines()
    return {"output_type": "error", "ename": type(error).__name__, "evalue": str(error), "traceback": lines}
