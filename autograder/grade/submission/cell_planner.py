"""Planning of the declarative cells of a source, which run once, so that no teacher's code runs for a submission."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from autograder.check.plan import Plan, Unplannable, planning
from autograder.check.subject.inputs import use_seed
from autograder.course.paths import write_files
from autograder.grade.sandbox.judge import seed_all
from autograder.grade.sandbox.shell import CellRun, Shell, limited, path_with, replaced_modules, unload_modules
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.submission.teacher.source_cells import SourceCell
from autograder.grade.wire import messages
from autograder.locale.messages import Message

MOST_SOURCES = 20  # if every student has another variant, there are as many sources as students
GROUPS = 1 << 10  # more checks than any cell has
SECONDS = 600.0  # for one cell, whose finite differences are computed once for the whole class


@dataclass(frozen=True)
class PlannedCell:
    """The plans of a declarative cell, made once for all submissions."""

    plans: tuple[Plan, ...] = ()  # the plans of its checks, in order
    # for each plan, the requests by which a lane asks the student's process for the answers to compare
    requests: tuple[tuple[messages.Request, ...], ...] = ()
    lines: tuple[int, ...] = ()  # the line of the cell at which each check is called
    # whether a comparison may need a call that is not in `requests`, before the next cell runs
    makes_extra_call: bool = False
    failure: str | None = None  # the reason why the cell cannot judge any submission; None if it can


SourcePlans = dict[str, PlannedCell]
"""The planned cells of a source, by the test's id; cells that cannot be planned are missing."""


class CellPlanner:
    """Plans one source after another in a shell, each once for a seed."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._known: dict[tuple[str, int], SourcePlans] = {}

    def plans(self, source: AssignmentSource, seed: int) -> SourcePlans:
        """Return the plans of a source's declarative cells."""
        key = (source.digest, seed)
        if key not in self._known:
            if len(self._known) >= MOST_SOURCES:
                del self._known[next(iter(self._known))]
            self._known[key] = self._plan(source, seed)
        return self._known[key]

    def _plan(self, source: AssignmentSource, seed: int) -> SourcePlans:
        planned: SourcePlans = {}
        errors: dict[int, BaseException | None] = {}  # of the teacher's cells that have run
        self._shell.reset_namespace()
        with self._shell.separate_outputs(0), _in_folder(source.files):
            seed_all(cell_seed(seed, ""))
            for position, cell in enumerate(source.cells):
                kind = source.kinds.get(cell.id)
                if kind is None or kind.kind != "declarative":
                    continue
                for index in kind.setup:
                    if index not in errors:
                        errors[index] = self._run(source.cells[index].text).error
                failed = next((error for index in kind.setup if (error := errors[index]) is not None), None)
                plan = self._plan_cell(cell, position, cell_seed(seed, cell.id), failed)
                if plan is not None:
                    planned[cell.id] = plan
        return planned

    def _run(self, text: str) -> CellRun:
        with limited(SECONDS):
            return self._shell.run(text)

    def _plan_cell(
        self, cell: SourceCell, position: int, seed: int, failed: BaseException | None
    ) -> PlannedCell | None:
        with use_seed(seed), planning() as plans:
            ran = self._run(cell.text)
        if isinstance(ran.error, Unplannable):
            return None
        if ran.error is not None:
            error = ran.error if failed is None else failed
            message = Message(
                "test.teacher_cell_ended|this test could not be judged: the teacher's cell ended with {error}",
                error=f"{type(error).__name__}: {error}",
            )
            return PlannedCell(failure=message)
        requests = tuple(requests_of(plan, position * GROUPS + number) for number, plan in enumerate(plans))
        return PlannedCell(tuple(plans), requests, tuple(plans.lines), any(plan.makes_extra_call for plan in plans))


def cell_seed(seed: int, cell: str) -> int:
    """Return the seed from which a test's inputs are drawn."""
    return int.from_bytes(hashlib.sha256(f"{seed} {cell}".encode()).digest()[:8])


def requests_of(plan: Plan, group: int) -> tuple[messages.Request, ...]:
    """Return the requests for the answers that a plan compares."""
    if plan.asks == "value":
        return (messages.DescribeName(plan.name),)
    calls = [None] if plan.asks == "program" else map(msgspec.msgpack.encode, plan.calls)
    return tuple(messages.MakeCall(plan.name, call, group) for call in calls)


@contextlib.contextmanager
def _in_folder(files: dict[str, bytes]) -> Iterator[None]:
    """Run the block in a folder with the teacher's files, whose modules can be imported."""
    before, paths, modules = os.getcwd(), list(sys.path), replaced_modules(files)
    with tempfile.TemporaryDirectory(prefix="plan-") as folder:
        write_files(Path(folder), files)
        os.chdir(folder)
        sys.path[:] = path_with(folder, paths)
        hidden = unload_modules(modules)
        try:
            yield
        finally:
            unload_modules(modules)
            sys.modules.update(hidden)
            sys.path[:] = paths
            os.chdir(before)
