"""A class's gradebook: a lock for one client at a time, nbgrader's own rows, and tables for the origin of each grade."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from nbgrader import api
from sqlalchemy import Column, Integer, MetaData, Table, Text, and_, bindparam, case, create_engine, func, null, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool
from traitlets.config import Config

from autograder.errors import InputError, UnfinishedError, printable
from autograder.grade.nbgrader_adapter import digest_of_marks, fill_grades, open_gradebook, transaction
from autograder.grade.policy import LatePolicy
from autograder.grade.submission.notebook_grade import NotebookGrade

RECORDS = MetaData()


def _table(name: str, keys: tuple[str, ...], *columns: Column[Any] | str) -> Table:
    primary = [Column(key, Text, primary_key=True) for key in keys]
    others = [Column(column, Text, nullable=False) if isinstance(column, str) else column for column in columns]
    return Table(name, RECORDS, *primary, *others)


RUNS = _table(
    "autograder_run", (), Column("id", Integer, primary_key=True), "assignment", "seed",
    Column("forced", Integer, nullable=False), "begun", Column("finished", Text),
)  # fmt: skip
GRADES = _table(
    "autograder_grade", ("assignment", "student"), Column("run", Integer, nullable=False),
    "submission", "source", "made_with", "cells", "graded",
)  # fmt: skip
SOURCE_REPORTS = _table("autograder_rehearsal", ("assignment", "notebook"), "source", "found", "rehearsed")
POLICIES = _table("autograder_policy", ("assignment", "student"), "policy", "applied")


class GradeOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """The data from which a grade was computed; stored with the grade."""

    run: int  # its number
    submission: str  # hash of all submitted files
    source: str  # hash of the source's cells and of everything else that determines a grade
    made_with: str = "{}"  # isolation level, limits, versions, and the worker and its kind of machine, as JSON
    cells: str = "{}"  # each cell's status, points, reason and seconds, as JSON


@dataclass(frozen=True)
class GradedStudent:
    """A student whose grades, by notebook, are ready to be written."""

    student: str
    grades: dict[str, NotebookGrade]
    origin: GradeOrigin
    timestamp: datetime.datetime | None  # when the work was submitted, in UTC
    unchanged: bool  # whether the same submission was graded before


class GradingRun(msgspec.Struct, frozen=True):
    """The number and the settings of a run of `grade`."""

    number: int  # its id in the gradebook
    seed: int  # seed from which the inputs of checks are drawn
    forced: bool  # whether unchanged submissions are graded again


class Score(msgspec.Struct, frozen=True):
    """The gradebook's entry for one student's work on the assignment."""

    points: float  # with manual points and extra credit, before the late penalty
    late_penalty: float
    waiting: int  # number of cells with points that a person still has to grade

    @property
    def total(self) -> float:
        """The points that the student gets, as computed by `nbgrader export` (nbgrader/plugins/export.py, 0.9.6)."""
        return max(0.0, self.points - self.late_penalty)


class GradingRecords(contextlib.AbstractContextManager["GradingRecords"]):
    """A gradebook opened for writing, given by its URL; a context manager. Each method writes one transaction, or nothing.

    Each method that writes raises UnfinishedError if the gradebook stays locked or the disk is full.
    """

    def __init__(self, address: str, assignment: str, settings: Config) -> None:
        self._assignment = assignment
        self._late = LatePolicy(settings)
        self._book = open_gradebook(address, settings.CourseDirectory.get("course_id", "default_course"))
        with self._transaction() as session:
            RECORDS.create_all(session.connection())

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
        """Record that every submission of the run is graded."""
        query = text("UPDATE autograder_run SET finished = :t WHERE id = :r")
        with self._transaction() as session:
            session.execute(query, {"t": _now(), "r": run.number})

    def origins(self) -> dict[str, GradeOrigin]:
        """Return the origin of each student's grade."""
        rows = self._rows("SELECT * FROM autograder_grade WHERE assignment = :a")
        fields = GradeOrigin.__struct_fields__
        return {row.student: GradeOrigin(**{name: getattr(row, name) for name in fields}) for row in rows}

    def write(self, students: list[GradedStudent]) -> None:
        """Write the grades, comments and origins of these students, all or nothing; each student must occur once."""
        if not students:
            return
        about = {"assignment": self._assignment, "graded": _now()}
        with self._transaction() as session:
            submissions = self._filled(session, students)
            session.flush()
            self._penalise(submissions)
            rows = [
                about | {"student": student.student} | msgspec.structs.asdict(student.origin) for student in students
            ]
            _replace_rows(session, GRADES, rows)

    def score_with(self, student: GradedStudent) -> float:
        """Return the score, after the late penalty, that a student would have with these grades; nothing is written."""
        with self._transaction() as session:
            [submission] = self._filled(session, [student])
            session.flush()
            self._penalise([submission])
            session.flush()
            total = read_scores(self._book, self._assignment)[student.student].total
            session.rollback()
        return total

    def _filled(self, session: Any, students: list[GradedStudent]) -> list[api.SubmittedAssignment]:
        """Return the rows of each student, filled with the grades; the two flushes send them to the database together."""
        with session.no_autoflush:
            for student in students:
                self._book.update_or_create_student(student.student)
            session.flush()
            submissions = [
                self._book.update_or_create_submission(self._assignment, student.student) for student in students
            ]
            for submission, student in zip(submissions, students, strict=True):
                submission.timestamp = student.timestamp
                for notebook in submission.notebooks:
                    grade = student.grades[notebook.name]
                    points = {name: cell.points for name, cell in grade.cells.items()}
                    fill_grades(notebook, points, grade.comments, unchanged=student.unchanged)
        return submissions

    def renew_penalties(self, timestamps: dict[str, datetime.datetime | None]) -> None:
        """Compute late penalties again by the current policy, given each student's time of submission in UTC; None if it is unknown."""
        with self._transaction():
            submissions = self._book.assignment_submissions(self._assignment)
            timed = [submission for submission in submissions if submission.student_id in timestamps]
            for submission in timed:
                submission.timestamp = timestamps[submission.student_id]
            self._penalise(timed)

    def _penalise(self, submissions: list[api.SubmittedAssignment]) -> None:
        """Set the penalties, and record the digest of policy.toml; must be called in a transaction."""
        for submission in submissions:
            self._late.penalise(submission)
        about = {"assignment": self._assignment, "policy": self._late.digest, "applied": _now()}
        rows = [about | {"student": submission.student_id} for submission in submissions]
        if rows:
            _replace_rows(self._book.db(), POLICIES, rows)

    def scores(self) -> dict[str, Score]:
        """Return the score of every student with a submission."""
        with self._reading():
            return read_scores(self._book, self._assignment)

    def automatic_points(self) -> dict[str, dict[tuple[str, str], float | None]]:
        """Return each student's automatic points by notebook and cell, as they are in the gradebook now."""
        with self._reading():
            return points_by_cell(self._book, self._assignment, api.Grade.auto_score)

    def digests_of_marks(self) -> dict[tuple[str, str], str]:
        """Return a hash of what a person gave each notebook, by student and notebook, as `digest_of_marks` computes it."""
        by_hand = api.Grade.manual_score.is_not(None) | api.Grade.extra_credit.is_not(None)
        marks_by_notebook: dict[tuple[str, str], list[Any]] = {}
        with self._reading():
            rows = partial(cell_rows, self._book, self._assignment)
            grades = rows(api.Grade, api.Grade.manual_score, api.Grade.extra_credit, null()).filter(by_hand)
            comments = rows(api.Comment, null(), null(), api.Comment.manual_comment)
            for student, notebook, *mark in (*grades, *comments.filter(api.Comment.manual_comment.is_not(None))):
                marks_by_notebook.setdefault((student, notebook), []).append(tuple(mark))
        return {place: digest_of_marks(marks) for place, marks in marks_by_notebook.items()}

    def source_report(self, notebook: str, source: str) -> str | None:
        """Return the report on a notebook as JSON if it was made with the same source, else None."""
        query = "SELECT found FROM autograder_rehearsal WHERE assignment = :a AND notebook = :n AND source = :s"
        return next((str(row.found) for row in self._rows(query, n=notebook, s=source)), None)

    def keep_source_report(self, notebook: str, source: str, report: str) -> None:
        """Store the report on a notebook; it replaces an earlier one."""
        row = {"assignment": self._assignment, "notebook": notebook, "source": source}
        with self._transaction() as session:
            _replace_rows(session, SOURCE_REPORTS, [row | {"found": report, "rehearsed": _now()}])

    def _rows(self, query: str, **values: str) -> list[Any]:
        """Return the rows of a query about the assignment `:a`."""
        with self._reading():
            return list(self._book.db.execute(text(query), {"a": self._assignment, **values}).all())

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        yield
        self._book.db.rollback()  # otherwise the read transaction stays open

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Any]:
        try:
            with transaction(self._book) as session:
                yield session
        except OperationalError as error:
            reason = str(error.orig).partition("\n")[0]
            raise UnfinishedError(
                f"the grade cannot be written to the gradebook ({reason}); grades so far are kept. "
                f"Fix that, then run the same command with --resume"
            ) from None


def read_scores(book: api.Gradebook, assignment: str) -> dict[str, Score]:
    """Return the score of every student with a submission."""
    by_student = api.SubmittedAssignment.student_id
    penalties = func.coalesce(func.sum(api.SubmittedNotebook.late_submission_penalty), 0.0)
    penalty = dict(_notebook_rows(book, assignment, penalties).group_by(by_student).all())
    # nbgrader also sets `needs_manual_grade` for cells with manual points.
    waits = api.Grade.needs_manual_grade & api.Grade.manual_score.is_(None) & (api.Grade.max_score > 0)
    waiting = func.sum(case((waits, 1), else_=0))
    notebooks = _notebook_rows(book, assignment, func.coalesce(func.sum(api.Grade.score), 0.0), waiting)
    graded = notebooks.join(api.Grade, api.Grade.notebook_id == api.SubmittedNotebook.id).group_by(by_student)
    return {student: Score(points, penalty[student], count) for student, points, count in graded}


def points_by_cell(book: api.Gradebook, assignment: str, points: Any) -> dict[str, dict[tuple[str, str], float | None]]:
    """Return the values of a column of the grades, by student, and by notebook and cell."""
    by_student: dict[str, dict[tuple[str, str], float | None]] = {}
    for student, notebook, cell, value in cell_rows(book, assignment, api.Grade, points):
        by_student.setdefault(student, {})[notebook, cell] = value
    return by_student


def cell_rows(book: api.Gradebook, assignment: str, kind: type[api.Grade] | type[api.Comment], *columns: Any) -> Any:
    """Return a query of an assignment's grades or comments: student, notebook, cell, and the given columns of each."""
    return (
        _notebook_rows(book, assignment, api.Notebook.name, api.BaseCell.name, *columns)
        .join(api.Notebook, api.Notebook.id == api.SubmittedNotebook.notebook_id)
        .join(kind, kind.notebook_id == api.SubmittedNotebook.id)
        .join(api.BaseCell, api.BaseCell.id == kind.cell_id)
    )


def _notebook_rows(book: api.Gradebook, assignment: str, *columns: Any) -> Any:
    """Return a query of an assignment's submitted notebooks: student, and the given columns of each."""
    return (
        book.db.query(api.SubmittedAssignment.student_id, *columns)
        .join(api.Assignment, api.Assignment.id == api.SubmittedAssignment.assignment_id)
        .join(api.SubmittedNotebook, api.SubmittedNotebook.assignment_id == api.SubmittedAssignment.id)
        .filter(api.Assignment.name == assignment)
    )


def _replace_rows(session: Any, table: Table, rows: list[dict[str, Any]]) -> None:
    """Write rows; they replace those with the same primary key. Must be called in a transaction."""
    keys = [column.name for column in table.primary_key]
    old = table.delete().where(and_(*(table.c[key] == bindparam(f"old_{key}") for key in keys)))
    # Execute the statement on the connection: a session treats several sets of parameters for a delete differently.
    connection = session.connection()
    connection.execute(old, [{f"old_{key}": row[key] for key in keys} for row in rows])
    connection.execute(table.insert(), rows)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def why_unusable(gradebook: str, error: Exception) -> str:
    """Return a sentence about a gradebook, given by its URL, and the error; the sentence does not contain a password."""
    url = make_url(gradebook)
    reason = str(getattr(error, "orig", error)).strip().partition("\n")[0]
    advice = "Correct c.CourseDirectory.db_url in nbgrader_config.py, or wait until no other program uses it"
    if "no such column" in reason:
        advice = "An older nbgrader created it: run `nbgrader db upgrade` in the course folder, which keeps a copy and upgrades it"
    return f"the gradebook {url.render_as_string()} cannot be used ({printable(reason)}). {advice}"


@contextlib.contextmanager
def exclusive_lock(gradebook: str, assignment: str) -> Iterator[None]:
    """Prevent other clients from grading this assignment into this gradebook during the context.

    For SQLite, a file next to the gradebook is locked. For PostgreSQL, it is an advisory lock of a connection, which
    the server also releases when the client's machine fails.

    Raises:
        UnfinishedError: another client grades the assignment.
        InputError: the gradebook cannot be reached.
    """
    url = make_url(gradebook)
    locked = _locked_file(Path(url.database or ""), assignment) if url.get_backend_name() == "sqlite" else None
    with locked or _advisory_lock(gradebook, assignment):
        yield


@contextlib.contextmanager
def _locked_file(gradebook: Path, assignment: str) -> Iterator[None]:
    path = gradebook.with_name(f".{gradebook.name}-{_key(assignment):x}.lock")
    try:
        file = path.open("w")
    except OSError as error:
        raise InputError(why_unusable(f"sqlite:///{gradebook}", error)) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _busy(assignment) from None
        yield


@contextlib.contextmanager
def _advisory_lock(gradebook: str, assignment: str) -> Iterator[None]:
    engine = create_engine(gradebook, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    try:
        connection = engine.connect()
    except SQLAlchemyError as error:
        raise InputError(why_unusable(gradebook, error)) from None
    with connection:
        if not connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": _key(assignment)}).scalar_one():
            raise _busy(assignment)
        yield


def _key(assignment: str) -> int:
    return int.from_bytes(hashlib.sha256(f"autograder {assignment}".encode()).digest()[:7])


def _busy(assignment: str) -> UnfinishedError:
    return UnfinishedError(
        f"another `autograder grade` is grading {assignment!r} into this gradebook. Wait until it has ended, or stop it; "
        "then run this command again with --resume"
    )
