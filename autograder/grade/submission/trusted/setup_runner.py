"""Binds the names that a test uses: the teacher's by running the teacher's cells here, the learner's through the worker."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from typing import Any

import msgspec

from autograder.check.message import Unsolved
from autograder.grade.sandbox.shell import Shell
from autograder.grade.submission.teacher.name_use import name_use
from autograder.grade.submission.teacher.setup_cells import SetupCells
from autograder.grade.submission.teacher.source import SourceCell
from autograder.grade.submission.trusted.process_state import random_state, seed_all
from autograder.grade.submission.trusted.remote_names import RemoteNames, Unreachable
from autograder.locale.translations import in_english

ABSENT = object()


class Provided(msgspec.Struct):
    """What a test was given.

    Attributes:
        borrowed: the learner's names with their values.
        unreachable: the error for each name that cannot be had.
        failure: why the test cannot be judged, because the teacher's own cells fail here; "" if they do not.
        seeded: whether the teacher's cells have set or used a random generator.
        setup_borrowed: whether a teacher's cell that the test needs has used a name of the learner's.
    """

    borrowed: dict[str, Any]
    unreachable: dict[str, Unsolved]
    failure: str = ""
    seeded: bool = False
    setup_borrowed: bool = False


class SetupRunner:
    """The teacher's cells of one submission; each that is needed runs once, in the order of the source."""

    def __init__(self, shell: Shell, setup: SetupCells, names: RemoteNames, seed: int) -> None:
        self._shell, self._setup, self._names, self._seed = shell, setup, names, seed
        self._done: set[int] = set()
        self._borrowing: set[int] = set()
        self._failed: dict[int, BaseException] = {}
        self._seeded = False

    def reach(self, cell: SourceCell) -> None:
        """Runs the needed cells before this one that use names of the learner's, which may change from here on."""
        for setup_cell in self._setup.borrowing_before(cell):
            self._run_all([*self._setup.needs(setup_cell).cells, setup_cell])

    @contextlib.contextmanager
    def provided(self, test: SourceCell) -> Iterator[Provided]:
        """A block in which every name that the test uses is bound, as far as it can be had.

        A name that a teacher's cell defines is never looked up in the submission. If that cell fails by itself, the test cannot
        be judged; if it used names of the learner's, the learner's code may be the reason.
        """
        needs = self._setup.needs(test)
        self._run_all(list(needs.cells))
        with self._borrow(self._looked_up(test)) as given:
            given.seeded = self._seeded
            given.setup_borrowed = any(id(cell) in self._borrowing for cell in needs.cells)
            for cell in needs.cells:
                self._add_missing(given, cell, needs.teachers)
            yield given

    def _add_missing(self, given: Provided, cell: SourceCell, teachers: frozenset[str]) -> None:
        error = self._failed.get(id(cell))
        for name in sorted((name_use(cell.text).binds & teachers) - self._shell.user_ns.keys()) if error else ():
            said = "".join(traceback.format_exception_only(error)).strip()
            given.unreachable[name] = Unreachable(
                in_english("{name}: the cell that defines it ended with {error}", name=name, error=said)
            )
            if id(cell) not in self._borrowing:
                given.failure = in_english(
                    "this test could not be judged: the teacher's cell that defines {name} ended with {error}",
                    name=name, error=said,
                )  # fmt: skip

    def _looked_up(self, cell: SourceCell) -> frozenset[str]:
        needs = self._setup.needs(cell)
        return needs.learners | (needs.unknown - self._shell.user_ns.keys())

    def _run_all(self, cells: list[SourceCell]) -> None:
        for cell in cells:
            if id(cell) not in self._done:
                self._done.add(id(cell))
                self._run(cell)

    def _run(self, cell: SourceCell) -> None:
        if not self._seeded:
            seed_all(self._seed)
        before = random_state()
        with self._borrow(self._looked_up(cell)) as given, self._shell.separate_outputs(0):
            result = self._shell.run_cell(cell.text, store_history=False)
        self._seeded = self._seeded or random_state() != before
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            self._failed[id(cell)] = error
        if given.borrowed or given.unreachable:
            self._borrowing.add(id(cell))

    @contextlib.contextmanager
    def _borrow(self, names: frozenset[str]) -> Iterator[Provided]:
        """A block in which the learner's names have their present values; what the block binds itself stays bound."""
        space = self._shell.user_ns
        given = Provided({}, {})
        before = {}
        for name in sorted(names):
            try:
                value = self._names.value(name)
            except KeyError:
                given.unreachable[name] = Unreachable(
                    in_english("{name}: nothing of this name is defined when the test runs", name=name)
                )
                continue
            except Unreachable as error:
                given.unreachable[name] = error
                continue
            before[name] = space.get(name, ABSENT)
            space[name] = given.borrowed[name] = value
        try:
            yield given
        finally:
            for name in [name for name in before if space.get(name) is given.borrowed[name]]:
                del space[name]
                if before[name] is not ABSENT:
                    space[name] = before[name]
