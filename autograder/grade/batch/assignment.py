"""`grade ASSIGNMENT`: a whole class, from the submitted files to the gradebook and the autograded notebooks."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import platform
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from autograder.grade.batch.classroom import Classroom, open_class, register
from autograder.grade.batch.feedback import write_feedback
from autograder.grade.batch.gradebook import GradeOrigin, GradingRecords, GradingRun, StoppedError
from autograder.grade.batch.hand_in import HandIn
from autograder.grade.sandbox.isolation.levels import STRONGEST, require_level
from autograder.grade.sandbox.launch import ServerPool, parallel_jobs
from autograder.grade.submission.notebook_grade import CellGrade
from autograder.grade.submission.submission_run import unreadable
from autograder.grade.where.local_processes import GradingTerms, Job, grade_all
from autograder.grade.wire.limits import Limits

PACKAGES = ("torch", "nbgrader", "ipython")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to grade a class.

    Attributes:
        jobs: how many submissions at once; 0 takes one for each core.
        isolation: the name of the isolation level.
        resume: continue the run that was interrupted.
        force: grade also what has not changed since it was graded.
        one_process: run the tests in the submission's own process, for notebooks whose tests need more than data.
        feedback: what the feedback shows of hidden tests: "none", "name" or "message"; "off" writes no feedback.
        limits: what one submission may use.
    """

    jobs: int = 0
    isolation: str = STRONGEST
    resume: bool = False
    force: bool = False
    one_process: bool = False
    feedback: Literal["off", "none", "name", "message"] = "off"
    limits: Limits = Limits()


class StudentRow(msgspec.Struct, frozen=True, kw_only=True):
    """One student's line of the report.

    Attributes:
        cells: the grade of each graded cell, by notebook and the cell's id.
        ended: why programs ended before their last cell.
        notes: what else a teacher should know.
        unchanged: whether this is an earlier grade that still holds.
        seconds: how long grading took.
    """

    student: str
    points: float
    max_points: float
    cells: dict[str, dict[str, CellGrade]]
    ended: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unchanged: bool = False
    seconds: float = 0.0


class BatchProgress(NamedTuple):
    """How many of the students have their grade."""

    done: int
    total: int


def grade_assignment(
    assignment: str,
    course: Path,
    options: Options,
    on_progress: Callable[[BatchProgress], None] = lambda progress: None,
    servers: ServerPool | None = None,
) -> list[StudentRow]:
    """Grades a class into its gradebook, and returns a row for every student with a submission, by name.

    Args:
        assignment: its folder's name, in the sources and in each student's folder.
        course: the class's folder; holds submitted/STUDENT/ASSIGNMENT/*.ipynb.
        options: how to grade.
        on_progress: called after each submission.
        servers: at the level asked for; the caller closes them. None makes some, if there is anything to grade.

    Raises:
        ClassError: there is no such class or assignment.
        IsolationError: the machine does not reach the level; nothing is graded.
        StoppedError: the gradebook stays locked or the disk is full; run again with `resume`.
    """
    level = require_level(options.isolation)
    classroom = open_class(course, assignment)
    sources = {source.name: source for source in classroom.read_sources()}
    register(classroom, list(sources.values()))
    jobs = parallel_jobs(options.jobs)
    with (
        GradingRecords(classroom.gradebook, assignment, classroom.settings()) as records,
        contextlib.nullcontext(servers) if servers else ServerPool(level, jobs) as pool,
    ):
        run = records.unfinished() if options.resume else None
        run = run or records.begin(secrets.randbits(63), forced=options.force)
        terms = GradingTerms(sources, level, options.limits, run.seed, options.one_process)
        rows = _Batch(classroom, terms, records, run, on_progress).grade(jobs, pool)
        if options.feedback != "off":
            new = [row.student for row in rows if not _has_feedback(classroom, row)]
            write_feedback(classroom, new, options.feedback, jobs)
        records.finish(run)
    return sorted(rows, key=lambda row: row.student)


class _Batch:
    def __init__(
        self,
        classroom: Classroom,
        terms: GradingTerms,
        records: GradingRecords,
        run: GradingRun,
        on_progress: Callable[[BatchProgress], None],
    ) -> None:
        self.classroom, self.terms, self.records, self.run = classroom, terms, records, run
        self.on_progress = on_progress
        self.students = classroom.students()
        self.known = records.origins()
        # A change in any of these may change a grade, so that unchanged work is graded again.
        deciding = [
            *(source.digest for source in terms.sources.values()),
            terms.one_process,
            terms.level.name,
            _versions(),
        ]
        self.source_digest = hashlib.sha256(repr(deciding).encode()).hexdigest()
        self.at_work: dict[str, HandIn] = {}
        self.finished: list[StudentRow] = []

    def grade(self, jobs: int, servers: ServerPool) -> list[StudentRow]:
        count = min(jobs, len(self.students))
        for result in grade_all(self._jobs(), self.terms, count, servers):
            work = self.at_work[result.student]
            source = self.terms.sources[result.notebook]
            work.grades[result.notebook] = result.grade or unreadable(source, result.failure)
            self._settle(work)
        return self.finished

    def _jobs(self) -> Iterator[Job]:
        """Yields the notebooks to grade; each is read from disk only when a process is free."""
        for student in self.students:
            work = HandIn(self.classroom, student, self.terms.sources, self.terms.limits)
            if self._has_grade(work):
                self._finish(_unchanged_row(student, self.known[student][1]))
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
        made_with = {
            "isolation": self.terms.level.name,
            "one process": self.terms.one_process,
            "seed": str(self.run.seed),
        }
        made_with |= {"limits": self.terms.limits, "versions": _versions()}  # type: ignore[dict-item]
        origin = GradeOrigin(
            submission=work.digest, source=self.source_digest, made_with=_json(made_with), cells=_json(row)
        )
        try:
            work.write_folder()
        except OSError as error:
            raise StoppedError(
                f"the graded work of {work.student} cannot be written ({error.strerror}: {error.filename}); what was "
                f"graded so far is kept. Fix that, then run the same command with --resume"
            ) from None
        self.records.write(work.student, work.grades, origin, self.run, work.timestamp)
        self._finish(row)

    def _finish(self, row: StudentRow) -> None:
        self.finished.append(row)
        self.on_progress(BatchProgress(len(self.finished), len(self.students)))


def _has_feedback(classroom: Classroom, row: StudentRow) -> bool:
    return row.unchanged and classroom.feedback(row.student).is_dir()


def _row(work: HandIn) -> StudentRow:
    notebooks = work.grades.values()
    return StudentRow(
        student=work.student,
        points=sum(graded.points for graded in notebooks),
        max_points=sum(cell.max_points for notebook in notebooks for cell in notebook.cells.values()),
        cells={name: graded.cells for name, graded in work.grades.items()},
        ended=tuple(graded.ended for graded in notebooks if graded.ended),
        notes=tuple([*work.notes, *(note for graded in notebooks for note in graded.notes)]),
        seconds=sum(graded.seconds for graded in notebooks),
    )


def _unchanged_row(student: str, origin: GradeOrigin) -> StudentRow:
    return msgspec.structs.replace(msgspec.json.decode(origin.cells, type=StudentRow), student=student, unchanged=True)


def _versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in PACKAGES}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
