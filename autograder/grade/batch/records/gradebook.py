"""Writes a class's gradebook: nbgrader's own rows and, beside them, what each grade was computed from."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec
from nbgrader.api import Gradebook, SubmittedAssignment
from sqlalchemy import bindparam, text
from sqlalchemy.exc import OperationalError
from traitlets.config import Config

from autograder.errors import UnfinishedError
from autograder.grade.batch.records.record_tables import GRADES, POLICIES, RECORDS, REHEARSALS, RUNS, replace_rows
from autograder.grade.batch.records.scores import Score, read_scores
from autograder.grade.policy.late_policy import LatePolicy
from autograder.grade.submission.notebook_grade import NotebookGrade

Value = TypeVar("Value")
PATIENCE = 60.0  # seconds to wait while another program keeps the gradebook locked


class StoppedError(UnfinishedError):
    """A grade cannot be written to the gradebook or the disk; earlier grades are kept, and --resume continues from there."""


class GradeOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """What a grade was computed from; stored with it.

    Attributes:
        submission: hash of all submitted files.
        source: hash of the source's cells and of everything else that decides a grade.
        made_with: isolation level, mode, limits, versions, and which worker on what kind of machine graded it, as JSON.
        cells: each cell's status, points, reason and seconds, as JSON.
    """

    submission: str
    source: str
    made_with: str = "{}"
    cells: str = "{}"


class GradedStudent(NamedTuple):
    """A student whose grade is ready to be written.

    Attributes:
        student: nbgrader's id.
        grades: by notebook.
        origin: what they were computed from.
        timestamp: when the work was submitted, in UTC.
    """

    student: str
    grades: dict[str, NotebookGrade]
    origin: GradeOrigin
    timestamp: datetime.datetime | None


class GradingRun(msgspec.Struct, frozen=True):
    """One call of `grade`.

    Attributes:
        number: its id in the gradebook.
        seed: from which the inputs of checks are drawn.
        forced: whether unchanged work is graded again.
    """

    number: int
    seed: int
    forced: bool


class GradingRecords:
    """A gradebook opened for writing; a context manager. Each method writes one transaction, or nothing.

    Args:
        address: the gradebook's URL.
        assignment: nbgrader's name for it.
        settings: nbgrader's configuration, for the course's id and late penalties.
    """

    def __init__(self, address: str, assignment: str, settings: Config) -> None:
        self._assignment = assignment
        self._book = Gradebook(address, settings.CourseDirectory.get("course_id", "default_course"))
        self._late = LatePolicy(settings)
        self._patiently(self._make_tables)

    def __enter__(self) -> GradingRecords:
        return self

    def __exit__(self, *_: object) -> None:
        self._book.close()

    def begin(self, seed: int, *, forced: bool) -> GradingRun:
        """Starts a run and returns it."""
        values = {"assignment": self._assignment, "seed": str(seed), "forced": int(forced), "begun": _now()}

        def write() -> int:
            with self._transaction() as session:
                return session.connection().execute(RUNS.insert(), values).inserted_primary_key[0]

        return GradingRun(self._patiently(write), seed, forced)

    def unfinished(self) -> GradingRun | None:
        """Returns the latest run of the assignment if it was not finished, else None."""
        query = "SELECT id, seed, forced, finished FROM autograder_run WHERE assignment = :a ORDER BY id DESC LIMIT 1"
        row = self._book.db.execute(text(query), {"a": self._assignment}).first()
        return GradingRun(row.id, int(row.seed), bool(row.forced)) if row is not None and row.finished is None else None

    def finish(self, run: GradingRun) -> None:
        """Records that every submission of the run has its grade."""

        def write() -> None:
            with self._transaction() as session:
                session.execute(
                    text("UPDATE autograder_run SET finished = :t WHERE id = :r"), {"t": _now(), "r": run.number}
                )
                if session.get_bind().dialect.name == "postgresql":
                    # It never counts tables as small as nbgrader's cells by itself, and without knowing how few rows these have,
                    # formgrader's list of a notebook took 48 s instead of 0.8 s with 5,000 students (PostgreSQL 15).
                    session.execute(text("ANALYZE"))

        self._patiently(write)

    def origins(self) -> dict[str, tuple[int, GradeOrigin]]:
        """Returns for each graded student the number of the run and the grade's origin."""
        query = "SELECT * FROM autograder_grade WHERE assignment = :a"
        rows = self._book.db.execute(text(query), {"a": self._assignment}).all()
        found = {
            row.student: (
                row.run,
                GradeOrigin(submission=row.submission, source=row.source, made_with=row.made_with, cells=row.cells),
            )
            for row in rows
        }
        self._book.db.rollback()  # otherwise the read transaction stays open
        return found

    def write(self, students: list[GradedStudent], run: GradingRun) -> None:
        """Writes these students' grades, comments and their origins, all or nothing.

        Args:
            students: each once.
            run: which computed their grades.

        Raises:
            StoppedError: the gradebook stays locked, or the disk is full.
        """
        if not students:
            return

        def write() -> None:
            with self._transaction() as session:
                submissions = self._filled(session, students, self._submitted_before(session, students))
                session.flush()
                self._penalise(submissions)
                about = {"assignment": self._assignment, "run": run.number, "graded": _now()}
                rows = [about | {"student": one.student} | msgspec.structs.asdict(one.origin) for one in students]
                replace_rows(session, GRADES, rows)

        self._patiently(write)

    def _submitted_before(self, session: Any, students: list[GradedStudent]) -> dict[str, str]:
        """Return for those of the students who were graded before the digest of the submission that was graded last."""
        query = text("SELECT student, submission FROM autograder_grade WHERE assignment = :a AND student IN :students")
        values = {"a": self._assignment, "students": [student.student for student in students]}
        rows = session.execute(query.bindparams(bindparam("students", expanding=True)), values)
        return {row.student: row.submission for row in rows}

    def _filled(self, session: Any, students: list[GradedStudent], before: dict[str, str]) -> list[SubmittedAssignment]:
        """Returns each student's rows with the grades in them. All are sent to the database together, at the two flushes."""
        with session.no_autoflush:
            for one in students:
                self._book.update_or_create_student(one.student)
            session.flush()
            submissions = [self._book.update_or_create_submission(self._assignment, one.student) for one in students]
            for submission, one in zip(submissions, students, strict=True):
                submission.timestamp = one.timestamp
                for notebook in submission.notebooks:
                    _fill(
                        notebook, one.grades[notebook.name], unchanged=before.get(one.student) == one.origin.submission
                    )
        return submissions

    def renew_penalties(self, timestamps: dict[str, datetime.datetime | None]) -> None:
        """Computes the late penalties of these students again, from the due date, extensions and policy of today.

        Args:
            timestamps: when each one's work was submitted, in UTC.
        """

        def write() -> None:
            with self._transaction():
                known = [
                    submission
                    for submission in self._book.assignment_submissions(self._assignment)
                    if submission.student_id in timestamps
                ]
                for submission in known:
                    submission.timestamp = timestamps[submission.student_id]
                self._penalise(known)

        self._patiently(write)

    def is_excused(self, student: str) -> bool:
        """Returns whether the course's policy.toml excuses a student from the assignment."""
        return self._late.is_excused(self._assignment, student)

    def _penalise(self, submissions: list[SubmittedAssignment]) -> None:
        """Sets penalties, and notes by which policy.toml; inside a transaction."""
        for submission in submissions:
            self._late.penalise(submission)
        rows = [
            {
                "assignment": self._assignment,
                "student": submission.student_id,
                "policy": self._late.digest,
                "applied": _now(),
            }
            for submission in submissions
        ]
        if rows:
            replace_rows(self._book.db(), POLICIES, rows)

    def scores(self) -> dict[str, Score]:
        """Returns what the gradebook says of every student with a submission."""
        found = read_scores(self._book, self._assignment)
        self._book.db.rollback()  # otherwise the read transaction stays open
        return found

    def rehearsal(self, notebook: str, source: str) -> str | None:
        """Returns what the last rehearsal of a notebook found, if it was made with the same source; else None."""
        query = "SELECT found FROM autograder_rehearsal WHERE assignment = :a AND notebook = :n AND source = :s"
        row = self._book.db.execute(text(query), {"a": self._assignment, "n": notebook, "s": source}).first()
        self._book.db.rollback()  # otherwise the read transaction stays open
        return None if row is None else str(row.found)

    def keep_rehearsal(self, notebook: str, source: str, found: str) -> None:
        """Keeps what a rehearsal found instead of what an earlier one of this notebook did.

        Raises:
            StoppedError: the gradebook stays locked, or the disk is full.
        """
        about = {"assignment": self._assignment, "notebook": notebook, "source": source}

        def write() -> None:
            with self._transaction() as session:
                replace_rows(session, REHEARSALS, [about | {"found": found, "rehearsed": _now()}])

        self._patiently(write)

    def _make_tables(self) -> None:
        with self._transaction() as session:
            RECORDS.create_all(session.connection())

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Any]:
        """A block that is committed as a whole. nbgrader's methods commit one by one (0.9.6); inside it they do not."""
        session = self._book.db()
        commit = session.commit
        session.commit = lambda: None
        try:
            yield session
            commit()
        except BaseException:
            session.rollback()
            raise
        finally:
            del session.commit

    def _patiently(self, write: Callable[[], Value]) -> Value:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return write()
            except OperationalError as error:
                reason = str(error.orig).partition("\n")[0]
                if "locked" not in reason or time.monotonic() > until:
                    raise StoppedError(
                        f"the grade cannot be written to the gradebook ({reason}); what was graded so far is kept. "
                        f"Fix that, then run the same command with --resume"
                    ) from None
                time.sleep(0.2)


def _fill(notebook: Any, graded: NotebookGrade, *, unchanged: bool) -> None:
    """Set grades and comments as nbgrader's SaveAutoGrades does (0.9.6); manual points are kept.

    Unlike in nbgrader, manual points for an unchanged submission do not wait for a person again.
    """
    source = notebook.notebook
    # All names at once: `grade.name` and `comment.name` ask the database for each.
    names = {cell.id: cell.name for cell in (*source.grade_cells, *source.solution_cells, *source.task_cells)}
    for grade in notebook.grades:
        cell = graded.cells[names[grade.cell_id]]
        is_marked = grade.manual_score is not None
        if not (is_marked and unchanged and grade.auto_score == cell.points):
            grade.needs_manual_grade = is_marked or cell.points is None
        grade.auto_score = cell.points
    for comment in notebook.comments:
        if (name := names[comment.cell_id]) in graded.comments:
            comment.auto_comment = graded.comments[name]


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
