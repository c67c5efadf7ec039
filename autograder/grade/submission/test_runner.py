"""Runs the teacher's own cells in this process: tests, and what of the lesson's code they need. Never a learner's text."""

from __future__ import annotations

import hashlib
import math
import time
import traceback
from collections.abc import Hashable
from typing import Any, NamedTuple

import torch

from autograder.check.learner import use_names
from autograder.check.memo import remembering
from autograder.check.message import NotAttempted, Unsolved
from autograder.check.subject.inputs import seeded
from autograder.grade.sandbox.shell import Shell, make_shell
from autograder.grade.submission.remote_names import Asked, RemoteNames, Unreachable
from autograder.grade.submission.result import CellGrade, Status
from autograder.grade.submission.source import AssignmentSource, SourceCell
from autograder.grade.wire.outputs import Outputs

LONGEST_REASON = 4000
Memories = dict[str, dict[Hashable, Any]]  # by test cell: what every submission shares, for one source and seed
Known = dict[str, list[tuple[tuple[Asked, ...], "Tested"]]]  # by test cell: what it said to what it was told
BEGIN, END = "BEGIN HIDDEN TESTS", "END HIDDEN TESTS"


class Tested(NamedTuple):
    """What a test came to, and the outputs to show below it."""

    grade: CellGrade
    outputs: list[dict[str, Any]]

    def at(self, execution_count: int) -> Tested:
        """Returns the same at another place of a notebook."""
        numbered = [
            output | {"execution_count": execution_count} if "execution_count" in output else output
            for output in self.outputs
        ]
        return Tested(self.grade, numbered)


class Bench:
    """The trusted process's shell. One for a process; `for_submission` gives it a clean namespace."""

    def __init__(self, cell_seconds: float, output_bytes: int) -> None:
        self._shell: Shell = make_shell(output_bytes)
        self._cell_seconds, self._output_bytes = cell_seconds, output_bytes
        self._shared: dict[tuple[str, int], tuple[Memories, Known]] = {}

    def for_submission(self, source: AssignmentSource, names: RemoteNames, seed: int) -> Examination:
        """Returns the examination of one submission; whatever the last one left behind is gone."""
        self._shell.forget()
        self._shell.outputs = Outputs(self._output_bytes)
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)
        shared = self._shared.setdefault((source.digest, seed), ({}, {}))
        return Examination(self._shell, source, names, seed, self._cell_seconds, shared)


class Examination:
    """The tests of one submission, in the order in which its notebook comes to them."""

    def __init__(
        self,
        shell: Shell,
        source: AssignmentSource,
        names: RemoteNames,
        seed: int,
        cell_seconds: float,
        shared: tuple[Memories, Known],
    ) -> None:
        self._shell, self._source, self._names, self._seed = shell, source, names, seed
        self._cell_seconds = cell_seconds
        # A test that is told nothing but data says the same whenever it is told the same.
        self._memories, self._known = shared
        self._provided: set[str] = set()

    def test(self, cell: SourceCell, execution_count: int) -> Tested:
        """Returns what a test says about the learner's names as they are now."""
        if self._source.stands_alone(cell):
            for asked, tested in self._known.get(cell.id, []):
                if self._names.would_tell(asked):
                    return tested.at(execution_count)
        self._names.begin_test()
        tested = self._test(cell, execution_count)
        told = self._names.asked()
        if told is not None and not tested.grade.reason.startswith("CellTimeoutError"):  # a slow moment is no verdict
            self._known.setdefault(cell.id, []).append((told, tested))
        return tested

    def _test(self, cell: SourceCell, execution_count: int) -> Tested:
        start = time.monotonic()
        self._shell.execution_count = execution_count
        torch.default_generator.manual_seed(self._seed & (2**63 - 1))
        borrowed, unreachable = self._provide(cell)
        # What the learner defined may reach the right values of this test, so they hold for this submission only.
        memory = {} if borrowed else self._memories.setdefault(cell.id, {})
        with use_names(self._names), seeded(_mixed(self._seed, cell.id)), remembering(memory):
            ran = self._shell.run(cell.text, self._cell_seconds * 4)
        for name, value in borrowed.items():
            if self._shell.user_ns.get(name) is value:
                del self._shell.user_ns[name]
        error, outputs = ran.error, ran.outputs
        if isinstance(error, NameError) and error.name in unreachable:
            error = unreachable[error.name]
            outputs = [_shown(error) if output["output_type"] == "error" else output for output in outputs]
        grade = _grade(cell, error, ran.value, time.monotonic() - start)
        return Tested(grade, outputs)

    def _provide(self, cell: SourceCell) -> tuple[dict[str, Any], dict[str, Unsolved]]:
        """Binds the names that a cell needs: the teacher's by running the teacher's cells, the learner's through the worker.

        Returns:
            The learner's names and what they were bound to, and why others could not be reached.
        """
        borrowed: dict[str, Any] = {}
        unreachable: dict[str, Unsolved] = {}
        for name in sorted(self._source.needs(cell) - self._shell.user_ns.keys()):
            provider = self._source.provider(name, cell)
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
        with self._shell.listening(0):
            self._shell.run_cell(cell.text, store_history=False)


def _mixed(seed: int, cell: str) -> int:
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
    """Returns the points that a test's last expression gives: a number is partial credit, as in nbgrader.

    Unlike nbgrader 0.9.6, which gives full marks for nan and negative numbers and stops at one above the maximum.
    """
    if value is None or isinstance(value, (str, bytes)) or value is True:
        return most, ""
    if value is False:
        return 0.0, "the test's last line came to False"
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError):
        return most, ""
    if math.isnan(number) or number < 0:
        return 0.0, f"the test came to {number:g}, which is no number of points"
    return min(number, most), "" if number >= most else f"the test gave {number:g} of {most:g} points"


def _in_hidden_part(text: str, error: BaseException) -> bool:
    """Whether the statement of the test that raised stands between the marks of a hidden part."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code.co_name == "<module>"]
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame in frames]
    if not lines:
        return True  # a test that does not even compile: say nothing of it
    before = text.splitlines()[: lines[-1]]
    marks = [BEGIN if BEGIN in line else END for line in before if BEGIN in line or END in line]
    return bool(marks) and marks[-1] == BEGIN


def _shown(error: Unsolved) -> dict[str, Any]:
    lines = str(error).splitlines()
    return {"output_type": "error", "ename": type(error).__name__, "evalue": str(error), "traceback": lines}
