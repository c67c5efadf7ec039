"""One client grades an assignment at a time, with a lock that ends with its process; and why a gradebook cannot be opened."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from autograder.errors import InputError, UnfinishedError
from autograder.printable import printable


class BusyError(UnfinishedError):
    """Another client grades the assignment; the message says what to do."""


class UnusableGradebookError(InputError):
    """The gradebook cannot be opened; the message says why, and what to do."""


def why_unusable(gradebook: str, error: Exception) -> str:
    """Return a sentence on a gradebook, by its URL, and the error that refused it; a password is not quoted."""
    url = make_url(gradebook)
    reason = str(getattr(error, "orig", error)).strip().partition("\n")[0]
    advice = "Correct c.CourseDirectory.db_url in nbgrader_config.py, or wait until no other program uses it"
    if "no such column" in reason:
        advice = "An older nbgrader made it: `nbgrader db upgrade` in the course's folder keeps a copy, and renews it"
    return f"the gradebook {url.render_as_string()} cannot be used ({printable(reason)}). {advice}"


@contextlib.contextmanager
def only_client(gradebook: str, assignment: str) -> Iterator[None]:
    """A block in which no other client grades this assignment into this gradebook.

    For a gradebook in SQLite, a file next to it is locked. In PostgreSQL it is an advisory lock of a connection, which the
    server frees also when the client's machine has gone.

    Raises:
        BusyError: another client does.
        UnusableGradebookError: the database cannot be reached, or there is no place for the gradebook.
    """
    url = make_url(gradebook)
    locked = _locked_file(Path(url.database or ""), assignment) if url.get_backend_name() == "sqlite" else None
    with locked or _advisory_lock(gradebook, assignment):
        yield


@contextlib.contextmanager
def _locked_file(gradebook: Path, assignment: str) -> Iterator[None]:
    path = gradebook.with_name(f".{gradebook.name}-{_key(assignment):x}.lock")
    with contextlib.ExitStack() as opened:
        while True:
            try:
                file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            except OSError as error:
                raise UnusableGradebookError(why_unusable(f"sqlite:///{gradebook}", error)) from None
            opened.callback(os.close, file)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise _busy(assignment) from None
            # The client that had it may have removed it between the two calls.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.stat(path), os.fstat(file)):
                    break
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _advisory_lock(gradebook: str, assignment: str) -> Iterator[None]:
    engine = create_engine(gradebook, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    try:
        connection = engine.connect()
    except SQLAlchemyError as error:
        raise UnusableGradebookError(why_unusable(gradebook, error)) from None
    with connection:
        if not connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": _key(assignment)}).scalar_one():
            raise _busy(assignment)
        yield


def _key(assignment: str) -> int:
    return int.from_bytes(hashlib.sha256(f"autograder {assignment}".encode()).digest()[:7])


def _busy(assignment: str) -> BusyError:
    return BusyError(
        f"another `autograder grade` is grading {assignment!r} into this gradebook. Wait until it has ended, or stop it; "
        "then run this command again with --resume"
    )
