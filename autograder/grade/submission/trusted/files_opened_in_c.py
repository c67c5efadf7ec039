"""Functions that open a file by its name without Python, so that no audit event tells of it: a test calls them for its own files only.

`torch.save([1], f())` would overwrite any file of the teacher's whose name an answer returns.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from autograder.grade.submission.trusted.guarded_functions import guarded_functions

OPENING = {
    "torch": ("from_file", "save", "UntypedStorage.from_file"),
    "torch.serialization": ("save",),
    "torch.jit": ("save", "RecursiveScriptModule.save"),
    "torch.profiler": ("profile.export_chrome_trace", "profile.export_stacks"),
    "torch.autograd.profiler": ("profile.export_chrome_trace",),
    "os": ("mkfifo", "mknod"),
}
"""By the module, and the class in it."""

DATABASES = {"sqlite3": ("connect",), "sqlite3.dbapi2": ("connect",)}
"""Where a database is opened, whose SQL may open others."""


@contextlib.contextmanager
def no_other_files(refuse: Callable[[Any], None]) -> Iterator[None]:
    """A block in which each of these functions asks first about every path that it is given.

    Args:
        refuse: raises an exception for a path that may not be written.
    """
    with (
        guarded_functions(OPENING, lambda function: _guarded(function, refuse)),
        guarded_functions(DATABASES, lambda connect: _guarded_database(connect, refuse)),
    ):
        yield


def _guarded(function: Callable[..., Any], refuse: Callable[[Any], None]) -> Callable[..., Any]:
    def guarded(*arguments: Any, **keywords: Any) -> Any:
        for argument in (*arguments, *keywords.values()):
            if isinstance(argument, (str, bytes, os.PathLike)):
                refuse(argument)
        return function(*arguments, **keywords)

    return guarded


def _guarded_database(connect: Callable[..., Any], refuse: Callable[[Any], None]) -> Callable[..., Any]:
    """Has SQL, which may be the answer's, ask before it opens a file: `ATTACH`, and `VACUUM INTO`, which attaches one."""

    def authorize(action: int, name: str | None, *_: object) -> int:
        if action == sqlite3.SQLITE_ATTACH:
            refuse(name or ":memory:")  # an exception here denies it
        return sqlite3.SQLITE_OK

    def guarded(*arguments: Any, **keywords: Any) -> Any:
        # The audit event that follows comes from here, and the grader's own files are not asked about.
        connection = _guarded(connect, refuse)(*arguments, **keywords)
        connection.set_authorizer(authorize)
        return connection

    return guarded
