"""`grade ASSIGNMENT`: a whole class, from the submitted files to the gradebook and the autograded notebooks."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from autograder.grade.batch.classroom import Classroom, open_class, register
from autograder.grade.batch.feedback import write_feedback
from autograder.grade.batch.gradebook import GradingRecords, GradingRun, Origin, StoppedError
from autograder.grade.batch.hand_in import HandIn
from autograder.grade.sandbox.launch import Launched, lanes
from autograder.grade.sandbox.walls import Level, require
from autograder.grade.submission.result import CellGrade
from autograder.grade.submission.source import AssignmentSource
from autograder.grade.submission.submission_grader import unreadable
from autograder.grade.where.here import Job, Terms, grade_all
from autograder.grade.wire.limits import Limits

PACKAGES = ("torch", "nbgrader", "ipython")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to grade a class.

    Attributes:
        jobs: how many submissions at once; 0 takes one for each core.
        isolation: the level below which no marks are given.
        resume: go on with the run that was cut short.
        force: grade also what has not changed since it was graded.
        one_process: run the tests in the submission's own process, for notebooks whose tests need more than data.
        feedback: what the feedback tells of hidden tests: "none", "name" or "message"; "off" writes no feedback.
        limits: what one submission may use.
    """

    jobs: int = 0
    isolation: Level = "bubblewrap"
    resume: bool = False
    force: bool = False
    one_process: bool = False
    feedback: Literal["off", "none", "name", "message"] = "off"
    limits: Limits = Limits()


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One student's line of the report; `unchanged` where an earlier grade still holds."""

    student: str
    points: float
    max_points: float
    cells: dict[str, dict[str, CellGrade]]
    ended: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unchanged: bool = False
    seconds: float = 0.0


class Progress(NamedTuple):
    """How far the batch is; seconds since it began."""

    done: int
    total: int
    seconds: float

    @property
    def seconds_left(self) -> float:
        """At the pace so far."""
        return self.seconds / self.done * (self.total - self.done) if self.done else 0.0


def grade_assignment(
    assignment: str,
    course: Path,
    options: Options,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    launched: Sequence[Launched] = (),
) -> list[Row]:
    """Returns a row for every student who handed in, by name; their grades are in the gradebook by then.

    Args:
        assignment: its folder's name, in the sources and in each student's folder.
        course: the class's folder; holds submitted/STUDENT/ASSIGNMENT/*.ipynb.
        options: how to grade.
        on_progress: called after each submission.
        launched: servers at the level asked for that were started beforehand; the caller ends them.

    Raises:
        ClassError: there is no such class or assignment.
        IsolationError: the machine does not reach the level asked for; nothing is graded.
        StoppedError: the gradebook stays locked or the disk is full; run again with `resume`.
    """
    level = require(options.isolation)
    classroom = open_class(course, assignment)
    sources = classroom.read_sources()
    register(classroom, sources)
    with GradingRecords(classroom.gradebook, assignment, classroom.settings()) as ledger:
        run = (ledger.unfinished() if options.resume else None) or ledger.begin(
            secrets.randbits(63), forced=options.force
        )
        rows = _Batch(classroom, sources, options, level, ledger, run, on_progress, launched).rows()
        if options.feedback != "off":
            fresh = [row.student for row in rows if not _has_feedback(classroom, row)]
            write_feedback(classroom, fresh, options.feedback, lanes(options.jobs))
        ledger.finish(run)
    return sorted(rows, key=lambda row: row.student)


class _Batch:
    def __init__(
        self,
        classroom: Classroom,
        sources: list[AssignmentSource],
        options: Options,
        level: Level,
        ledger: GradingRecords,
        run: GradingRun,
        on_progress: Callable[[Progress], None],
        launched: Sequence[Launched],
    ) -> None:
        self.classroom, self.options, self.ledger, self.run = classroom, options, ledger, run
        self.sources = {source.name: source for source in sources}
        self.terms = Terms(self.sources, level, options.limits, run.seed, options.one_process)
        self.on_progress, self.begun = on_progress, time.monotonic()
        self.launched = list(launched)
        self.students = classroom.students()
        self.known = ledger.origins()
        # Whatever of this differs may change a grade, so that work which is itself unchanged is graded again.
        deciding = [*(source.digest for source in sources), options.one_process, level, _versions()]
        self.source_digest = hashlib.sha256(repr(deciding).encode()).hexdigest()
        self.at_work: dict[str, HandIn] = {}
        self.finished: list[Row] = []

    def rows(self) -> list[Row]:
        count = min(lanes(self.options.jobs), len(self.students))
        for done in grade_all(self._jobs(), self.terms, count, self.launched):
            work = self.at_work[done.student]
            work.graded[done.notebook] = done.graded or unreadable(self.sources[done.notebook], done.failure)
            self._settle(work)
        return self.finished

    def _jobs(self) -> Iterator[Job]:
        """Yields the notebooks to grade, each read from disk only when its turn comes."""
        for student in self.students:
            work = HandIn(self.classroom, student, self.sources, self.options.limits)
            if self._has_grade(work):
                self._finish(_row_again(student, self.known[student][1]))
                continue
            self.at_work[student] = work
            files = work.for_worker()
            for name, data in work.notebooks.items():
                yield Job(student, name, data, files)
            self._settle(work)

    def _has_grade(self, work: HandIn) -> bool:
        run, origin = self.known.get(work.student, (0, None))
        same = origin is not None and (origin.submission, origin.source) == (work.digest, self.source_digest)
        there = self.classroom.autograded(work.student).is_dir()
        return same and there and (run == self.run.number or not self.run.forced)

    def _settle(self, work: HandIn) -> None:
        """Writes a student's grade once all notebooks have theirs."""
        if not work.complete or self.at_work.pop(work.student, None) is None:
            return
        row = _row(work)
        made_with = {"isolation": self.terms.level, "one process": self.terms.one_process, "seed": str(self.run.seed)}
        made_with |= {"limits": self.terms.limits, "versions": _versions()}  # type: ignore[dict-item]
        origin = Origin(submission=work.digest, source=self.source_digest, made_with=_json(made_with), cells=_json(row))
        try:
            work.write_folder()
        except OSError as error:
            raise StoppedError(
                f"the graded work of {work.student} cannot be written ({error.strerror}: {error.filename}); what was "
                f"graded so far is kept. Mend that, then run the same command with --resume"
            ) from None
        self.ledger.write(work.student, work.graded, origin, self.run, work.timestamp)
        self._finish(row)

    def _finish(self, row: Row) -> None:
        self.finished.append(row)
        self.on_progress(Progress(len(self.finished), len(self.students), time.monotonic() - self.begun))


def _has_feedback(classroom: Classroom, row: Row) -> bool:
    return row.unchanged and classroom.feedback(row.student).is_dir()


def _row(work: HandIn) -> Row:
    notebooks = work.graded.values()
    return Row(
        student=work.student,
        points=sum(graded.points for graded in notebooks),
        max_points=sum(cell.max_points for graded in notebooks for cell in graded.cells.values()),
        cells={name: graded.cells for name, graded in work.graded.items()},
        ended=tuple(graded.ended for graded in notebooks if graded.ended),
        notes=tuple([*work.notes, *(note for graded in notebooks for note in graded.notes)]),
        seconds=sum(graded.seconds for graded in notebooks),
    )


def _row_again(student: str, origin: Origin) -> Row:
    return msgspec.structs.replace(msgspec.json.decode(origin.cells, type=Row), student=student, unchanged=True)


def _versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in PACKAGES}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
