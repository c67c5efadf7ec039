"""Runs the teacher's own cells in this process: tests, and the cells that define what tests use. Never a learner's text."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import time
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

from autograder.check.learner import use_names
from autograder.check.memo import use_memo
from autograder.check.subject.inputs import use_seed
from autograder.grade.sandbox.shell import Shell, cell_time_limit
from autograder.grade.submission.cell_analysis import bound_names, statements
from autograder.grade.submission.notebook_grade import CellGrade
from autograder.grade.submission.stand_ins.source_facts import imported_modules
from autograder.grade.submission.teacher.source import AssignmentSource, SourceCell
from autograder.grade.submission.trusted.cell_verdict import error_output, verdict
from autograder.grade.submission.trusted.foreign_code import ForeignCode
from autograder.grade.submission.trusted.library_attributes import LibraryAttributes
from autograder.grade.submission.trusted.process_state import random_state, restored_state, seed_all
from autograder.grade.submission.trusted.remote_names import RemoteNames
from autograder.grade.submission.trusted.setup_runner import SetupRunner
from autograder.grade.submission.trusted.test_folder import working_folder
from autograder.grade.submission.trusted.verdict_memory import TestResult, VerdictMemory
from autograder.grade.wire.limits import Limits
from autograder.grade.wire.outputs import Outputs
from autograder.graded import being_graded
from autograder.locale.translations import in_english

KEPT_SETUPS = 20  # in a class where everybody has another variant there are as many sources as students
TEST_TIME_FACTOR = 4  # a test may make several calls, and each may take as long as a cell


class TestSetup(NamedTuple):
    """What all submissions share that are tested with one source and seed.

    Attributes:
        source: the teacher's notebook.
        seed: from which inputs are drawn.
        memories: what the checks of each test cell computed and may use again.
        verdicts: what tests found that saw nothing but data.
    """

    source: AssignmentSource
    seed: int
    memories: dict[str, dict[Hashable, Any]]
    verdicts: VerdictMemory


class TestRunner:
    """Tests one submission after another in a shell; `for_submission` gives each a clean namespace and folder."""

    def __init__(self, shell: Shell, limits: Limits) -> None:
        self._shell, self._limits = shell, limits
        self._libraries = LibraryAttributes()
        self._setups: dict[tuple[str, int], TestSetup] = {}

    @contextlib.contextmanager
    def for_submission(self, source: AssignmentSource, names: RemoteNames, seed: int) -> Iterator[SubmissionTests]:
        """Yields the tests of one submission; nothing that the previous one left behind is visible to them."""
        self._shell.forget()
        self._shell.outputs = Outputs(self._limits.output_bytes)
        setup = self._setup_of(source, seed)
        texts = [cell.full for cell in source.cells]
        imported = (imported_modules(cell.text) for cell in source.cells if cell.kind in ("test", "teacher"))
        with (
            self._libraries.restored(frozenset[str]().union(*imported)),
            restored_state(),
            being_graded(),
            working_folder(source.files) as folder,
            ForeignCode(texts, source.files, names, folder.parent).refused() as foreign,
        ):
            names.share_folder(folder, source.files)
            names.share_classes(self._shell.user_ns)
            self._shell.time_limit = functools.partial(cell_time_limit, clock=names.worker.clock)
            yield SubmissionTests(self._shell, setup, names, foreign, self._limits.cell_seconds * TEST_TIME_FACTOR)

    def _setup_of(self, source: AssignmentSource, seed: int) -> TestSetup:
        """Returns what submissions of the same source share; two students' variants may be the same text in two objects."""
        known = self._setups.pop((source.digest, seed), None) or TestSetup(source, seed, {}, VerdictMemory())
        self._setups[source.digest, seed] = known._replace(source=source)
        if len(self._setups) > KEPT_SETUPS:
            del self._setups[next(iter(self._setups))]  # the one that was not used for the longest time
        return self._setups[source.digest, seed]


class SubmissionTests:
    """The tests of one submission, in the order of its notebook."""

    def __init__(
        self, shell: Shell, setup: TestSetup, names: RemoteNames, foreign: ForeignCode, seconds: float
    ) -> None:
        self._shell, self._setup, self._names, self._foreign = shell, setup, names, foreign
        self._seconds = seconds
        self._bound = frozenset[str]()
        self._cells = SetupRunner(shell, setup.source.setup, names, setup.seed)

    def reach(self, cell: SourceCell) -> None:
        """Runs what has to see the learner's names as they are before this cell of the source."""
        self._cells.reach(cell)

    def run(self, cell: SourceCell, execution_count: int, *, keep_inputs: bool = False) -> TestResult:
        """Returns what a test finds, given the learner's names as they are now.

        Args:
            cell: the test.
            execution_count: of the notebook.
            keep_inputs: whether calls may not change the arguments that the test itself made.
        """
        independent = self._setup.source.setup.is_independent(cell)
        known = self._setup.verdicts.find(cell.id, self._names) if independent else None
        if known is not None:
            return self._leaning(cell, known.with_count(execution_count))
        self._names.begin_test(keep_inputs)
        result, repeats = self._run(cell, execution_count)
        seen = self._names.lookups()
        busy = result.grade.status == "timed out"  # the machine may just have been busy
        if independent and repeats and seen is not None and not busy:
            self._setup.verdicts.keep(cell.id, seen, result)
        return self._leaning(cell, result._replace(wrote_inputs=self._names.wrote_inputs))

    def _leaning(self, cell: SourceCell, result: TestResult) -> TestResult:
        """Notes what may have failed only because the answers do not see the tests' names, as in one kernel they do."""
        self._bound |= {name for part in statements(cell.text) for name in bound_names(part)}
        failed = result.grade.status in ("incorrect", "partly")
        return result._replace(leans_on=tuple(self._names.read_from(self._bound)) if failed else ())

    def _run(self, cell: SourceCell, execution_count: int) -> tuple[TestResult, bool]:
        """Returns the result, and whether the same lookups give it again."""
        start = time.monotonic()
        self._shell.execution_count = execution_count
        with self._cells.provided(cell) as given:
            if given.failure:
                return TestResult(_not_judged(cell, given.failure), []), True
            seed = _cell_seed(self._setup.seed, cell.id)
            if not given.seeded:
                seed_all(seed)
            before = random_state()
            # What the learner defined may compute the expected values of this test, so they are kept for this submission only.
            memory = {} if given.borrowed else self._setup.memories.setdefault(cell.id, {})
            with use_names(self._names), use_seed(seed), use_memo(memory):
                self._names.watch(self._shell.user_ns, cell.text)
                with self._foreign.in_test():
                    ran = self._shell.run(cell.text, self._seconds)
                self._names.end_test()
            drew = given.seeded and random_state() != before
        error, outputs = ran.error, ran.outputs
        if self._names.refusal:
            # Whatever the test made of it: that a value cannot cross says nothing about the answer.
            return TestResult(
                _not_judged(cell, in_english("this test could not be judged: {reason}", reason=self._names.refusal)), []
            ), False
        if isinstance(error, NameError) and error.name in given.unreachable:
            error = given.unreachable[error.name]
            outputs = [error_output(error) if output["output_type"] == "error" else output for output in outputs]
        grade = verdict(cell, error, ran.value, time.monotonic() - start)
        return TestResult(grade, outputs), not (drew or given.setup_borrowed)


def _cell_seed(seed: int, cell: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed} {cell}".encode()).digest()[:8])


def _not_judged(cell: SourceCell, failure: str) -> CellGrade:
    return CellGrade(status="for a person", points=None, max_points=cell.points, reason=failure, hidden=cell.hides)
