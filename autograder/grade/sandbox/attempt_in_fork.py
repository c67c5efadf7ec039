"""Records a wrong answer's call in a fork of the worker: whatever happens there, the submission goes on as if it had not been."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Callable
from typing import BinaryIO

import msgspec

from autograder.errors import UnfinishedError
from autograder.run_in_fork import run_in_fork
from autograder.tape.recording.schema import Recording
from autograder.tape.run.budget import Budget

FOR_RUNS = 1 / 3  # of the seconds: after these no further run begins, and what was found so far is the recording


def encoded_attempt(record: Callable[[], Recording | None], seconds: float, spared_bytes: int) -> bytes:
    """Returns a recording as msgpack; b"" where there is none, or where making it took too much time or memory.

    Args:
        record: makes it.
        seconds: after which the fork is ended.
        spared_bytes: of the memory that this process may have, what the fork may not.
    """
    with tempfile.TemporaryFile() as file:
        try:
            run_in_fork(lambda: _write(record, file, spared_bytes, seconds * FOR_RUNS), seconds)
        except UnfinishedError:
            return b""
        file.seek(0)
        return file.read()


def _write(record: Callable[[], Recording | None], file: BinaryIO, spared_bytes: int, seconds: float) -> int:
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_AS, (most - spared_bytes, most))
    with Budget(seconds).in_force():
        recording = record()
    if recording is not None:
        os.write(file.fileno(), msgspec.msgpack.encode(recording))
    return 0
