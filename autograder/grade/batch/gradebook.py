"""Writes a class's gradebook: nbgrader's own rows and, in tables of ours, what each grade was computed from."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from nbgrader.api import Assignment, Grade, Gradebook, SubmittedAssignment, SubmittedNotebook
from sqlalchemy import Column, Integer, MetaData, Table, Text, and_, bindparam, case, func, text
from sqlalchemy.exc import OperationalError
from traitlets.config import Config

from autograder.errors import UnfinishedError
from autograder.grade.nbgrader_adapter import fill_grades, open_gradebook, transaction
from autograder.grade.policy.course_policy import LatePolicy
from autograder.grade.submission.notebook_grade import NotebookGrade

RECORDS = MetaData()
RUNS = Table(
    "autograder_run",
    RECORDS,
    Column("id", Integer, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("assignment", "seed")),
    Column("forced", Integer, nullable=False),
    Column("begun", Text, nullable=False),
    Column("finished", Text),
)


def _table(name: str, keys: tuple[str, ...], *columns: Column[Any] | str) -> Table:
    primary = [Column(key, Text, primary_key=True) for key in keys]
    others = [Column(column, Text, nullable=False) if isinstance(column, str) else column for column in columns]
    return Table(name, RECORDS, *primary, *others)


GRADES = _table(
    "autograder_grade", ("assignment", "student"), Column("run", Integer, nullable=False),
    "submission", "source", "made_with", "cells", "graded",
)  # fmt: skip
REHEARSALS = _table("autograder_rehearsal", ("assignment", "notebook"), "source", "found", "rehearsed")
POLICIES = _table("autograder_policy", ("assignment", "student"), "policy", "applied")


class StoppedError(UnfinishedError):
    """A grade cannot be written to the gradebook or the disk; earlier grades are kept, and --resume continues from there."""


class GradeOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """What a grade was computed from; stored with it.

    Attributes:
        submission: hash of all submitted files.
        source: hash of the source's cells and of everything else that decides a grade.
        made_with: isolation level, limits, versions, and which worker on what kind of machine graded it, as JSON.
        cells: each cell's status, points, reason and seconds, as JSON.
    """

    submission: str
    source: str
    made_with: str = "{}"
    cells: str = "{}"


@dataclass(frozen=True)
class GradedStudent:
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


class Score(msgspec.Struct, frozen=True):
    """The gradebook's entry for one student's work on the assignment.

    Attributes:
        points: with manual points and extra credit, before the late penalty.
        late_penalty: the points taken off because the work was late.
        waiting: the number of cells that a person has still to grade.
    """

    points: float
    late_penalty: float
    waiting: int

    @property
    def total(self) -> float:
        """The points that the student gets, as `nbgrader export` computes them (nbgrader/plugins/export.py, 0.9.6)."""
        return max(0.0, self.points - self.late_penalty)


class GradingRecords:
    """A gradebook opened for writing; a context manager. Each method writes one transaction, or nothing.

    Args:
        address: the gradebook's URL.
        assignment: nbgrader's name for it.
        settings: nbgrader's configuration, for the course's id and late penalties.

    Raises:
        StoppedError: from each method that writes, if the gradebook stays locked or the disk is full.
    """

    def __init__(self, address: str, assignment: str, settings: Config) -> None:
        self._assignment = assignment
        self._late = LatePolicy(settings)
        self._book = open_gradebook(address, settings.CourseDirectory.get("course_id", "default_course"))
        with self._transaction() as session:
            RECORDS.create_all(session.connection())

    def __enter__(self) -> GradingRecords:
        return self

    def __exit__(self, *_: object) -> None:
        self._book.close()

    def begin(self, seed: int, *, forced: bool) -> GradingRun:
        """Start a run and return it."""
        values = {"assignment": self._assignment, "seed": str(seed), "forced": int(forced), "begun": _now()}
        with self._transaction() as session:
            [number] = session.connection().execute(RUNS.insert(), values).inserted_primary_key
        return GradingRun(number, seed, forced)

    def unfinished(self) -> GradingRun | None:
        """Return the latest run of the assignment if it was not finished, else None."""
        rows = self._rows(
            "SELECT id, seed, forced, finished FROM autograder_run WHERE assignment = :a ORDER BY id DESC LIMIT 1"
        )
        return next((GradingRun(row.id, int(row.seed), bool(row.forced)) for row in rows if row.finished is None), None)

    def finish(self, run: GradingRun) -> None:
        """Record that every submission of the run has its grade."""
        query = text("UPDATE autograder_run SET finished = :t WHERE id = :r")
        with self._transaction() as session:
            session.execute(query, {"t": _now(), "r": run.number})

    def origins(self) -> dict[str, tuple[int, GradeOrigin]]:
        """Return for each graded student the number of the run and the grade's origin."""
        return {
            row.student: (
                row.run,
                GradeOrigin(submission=row.submission, source=row.source, made_with=row.made_with, cells=row.cells),
            )
            for row in self._rows("SELECT * FROM autograder_grade WHERE assignment = :a")
        }

    def write(self, students: list[GradedStudent], run: GradingRun) -> None:
        """Write these students' grades, comments and their origins, all or nothing.

        Args:
            students: each once.
            run: which computed their grades.
        """
        if not students:
            return
        about = {"assignment": self._assignment, "run": run.number, "graded": _now()}
        with self._transaction() as session:
            submissions = self._filled(session, students, self._submitted_before(session, students))
            session.flush()
            self._penalise(submissions)
            rows = [about | {"student": one.student} | msgspec.structs.asdict(one.origin) for one in students]
            _replace_rows(session, GRADES, rows)

    def _submitted_before(self, session: Any, students: list[GradedStudent]) -> dict[str, str]:
        """Return for those of the students who were graded before the digest of the submission that was graded last."""
        query = text("SELECT student, submission FROM autograder_grade WHERE assignment = :a AND student IN :students")
        values = {"a": self._assignment, "students": [student.student for student in students]}
        rows = session.execute(query.bindparams(bindparam("students", expanding=True)), values)
        return {row.student: row.submission for row in rows}

    def _filled(self, session: Any, students: list[GradedStudent], before: dict[str, str]) -> list[SubmittedAssignment]:
        """Return each student's rows with the grades in them. All are sent to the database together, at the two flushes."""
        with session.no_autoflush:
            for one in students:
                self._book.update_or_create_student(one.student)
            session.flush()
            submissions = [self._book.update_or_create_submission(self._assignment, one.student) for one in students]
            for submission, one in zip(submissions, students, strict=True):
                submission.timestamp = one.timestamp
                unchanged = before.get(one.student) == one.origin.submission
                for notebook in submission.notebooks:
                    grade = one.grades[notebook.name]
                    points = {name: cell.points for name, cell in grade.cells.items()}
                    fill_grades(notebook, points, grade.comments, unchanged=unchanged)
        return submissions

    def renew_penalties(self, timestamps: dict[str, datetime.datetime | None]) -> None:
        """Compute the late penalties of these students again, from the due date, extensions and policy of today.

        Args:
            timestamps: when each one's work was submitted, in UTC.
        """
        with self._transaction():
            submissions = self._book.assignment_submissions(self._assignment)
            known = [submission for submission in submissions if submission.student_id in timestamps]
            for submission in known:
                submission.timestamp = timestamps[submission.student_id]
            self._penalise(known)

    def is_excused(self, student: str) -> bool:
        """Return whether the course's policy.toml excuses a student from the assignment."""
        return self._late.is_excused(self._assignment, student)

    def _penalise(self, submissions: list[SubmittedAssignment]) -> None:
        """Set penalties, and note by which policy.toml; inside a transaction."""
        for submission in submissions:
            self._late.penalise(submission)
        about = {"assignment": self._assignment, "policy": self._late.digest, "applied": _now()}
        rows = [about | {"student": submission.student_id} for submission in submissions]
        if rows:
            _replace_rows(self._book.db(), POLICIES, rows)

    def scores(self) -> dict[str, Score]:
        """Return the score of every student with a submission."""
        scores = read_scores(self._book, self._assignment)
        self._book.db.rollback()  # otherwise the read transaction stays open
        return scores

    def rehearsal(self, notebook: str, source: str) -> str | None:
        """Return the findings of the last rehearsal of a notebook if it was made with the same source, else None."""
        query = "SELECT found FROM autograder_rehearsal WHERE assignment = :a AND notebook = :n AND source = :s"
        return next((str(row.found) for row in self._rows(query, n=notebook, s=source)), None)

    def keep_rehearsal(self, notebook: str, source: str, found: str) -> None:
        """Keep the findings of a rehearsal instead of those of an earlier one of this notebook."""
        row = {"assignment": self._assignment, "notebook": notebook, "source": source}
        with self._transaction() as session:
            _replace_rows(session, REHEARSALS, [row | {"found": found, "rehearsed": _now()}])

    def _rows(self, query: str, **values: str) -> list[Any]:
        """Return the rows of a query about the assignment `:a`."""
        rows = self._book.db.execute(text(query), {"a": self._assignment, **values}).all()
        self._book.db.rollback()  # otherwise the read transaction stays open
        return list(rows)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Any]:
        """A block that is committed as a whole."""
        try:
            with transaction(self._book) as session:
                yield session
        except OperationalError as error:
            reason = str(error.orig).partition("\n")[0]
            raise StoppedError(
                f"the grade cannot be written to the gradebook ({reason}); what was graded so far is kept. "
                f"Fix that, then run the same command with --resume"
            ) from None


def read_scores(book: Gradebook, assignment: str) -> dict[str, Score]:
    """Return the score of every student with a submission."""
    penalties = _sums(book, assignment, func.coalesce(func.sum(SubmittedNotebook.late_submission_penalty), 0.0))
    penalty = {student: points for student, points in penalties}
    waiting = func.sum(case((Grade.needs_manual_grade, 1), else_=0))
    graded = _sums(book, assignment, func.coalesce(func.sum(Grade.score), 0.0), waiting)
    by_cell = graded.join(Grade, Grade.notebook_id == SubmittedNotebook.id)
    return {student: Score(points, penalty[student], count) for student, points, count in by_cell}


def _sums(book: Gradebook, assignment: str, *sums: Any) -> Any:
    """Return a query of sums over the submitted notebooks, for each student."""
    return (
        book.db.query(SubmittedAssignment.student_id, *sums)
        .join(Assignment, Assignment.id == SubmittedAssignment.assignment_id)
        .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .filter(Assignment.name == assignment)
        .group_by(SubmittedAssignment.student_id)
    )


def _replace_rows(session: Any, table: Table, rows: list[dict[str, Any]]) -> None:
    """Write rows instead of those with the same primary key; inside a transaction."""
    keys = [column.name for column in table.primary_key]
    old = table.delete().where(and_(*(table.c[key] == bindparam(f"old_{key}") for key in keys)))
    # A statement on the connection itself: a session takes several sets of parameters for a delete in another way.
    connection = session.connection()
    connection.execute(old, [{f"old_{key}": row[key] for key in keys} for row in rows])
    connection.execute(table.insert(), rows)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
