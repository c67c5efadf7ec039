"""One client grades an assignment at a time: a lock that ends with the process that has it, however that ends."""

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

from autograder.errors import UnfinishedError
from autograder.grade.batch.records.unusable_gradebook import UnusableGradebookError, why_unusable


class BusyError(UnfinishedError):
    """Another client grades the assignment; the message says what to do."""


@contextlib.contextmanager
def only_client(gradebook: str, assignment: str) -> Iterator[None]:
    """A block in which no other client grades this assignment into this gradebook.

    Beside a gradebook in SQLite lies a locked file. In PostgreSQL it is an advisory lock of a connection, which the server
    frees when the client's machine has gone, too.

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
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise UnusableGradebookError(why_unusable(f"sqlite:///{gradebook}", error)) from None
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise _busy(assignment) from None
            if not _is_still_there(path, file):  # removed between the two calls, by the client that had it
                continue
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return
        finally:
            os.close(file)


def _is_still_there(path: Path, file: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.stat(path), os.fstat(file))
    return False


@contextlib.contextmanager
def _advisory_lock(gradebook: str, assignment: str) -> Iterator[None]:
    engine = create_engine(gradebook, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    try:
        opened = engine.connect()
    except SQLAlchemyError as error:
        raise UnusableGradebookError(why_unusable(gradebook, error)) from None
    with opened as connection:
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
