"""Records wrong answers in one fork of the worker: whatever happens there, the submission goes on as if it had not been."""

from __future__ import annotations

import contextlib
import os
import resource
import tempfile
import time
from collections.abc import Mapping

import msgspec

from autograder.check.subject.call_report import Call
from autograder.check.subject.subjects import LocalSubject
from autograder.errors import UnfinishedError
from autograder.grade.wire.messages import Attempt, RecordAttempts
from autograder.run_in_fork import run_in_fork
from autograder.tape.run.budget import Budget

FOR_RUNS = (
    1 / 3
)  # of the seconds of one recording: after these no further run begins, and what was found so far is the recording
LONGEST = 3.0  # seconds for one recording


def encoded_attempts(subjects: Mapping[int, LocalSubject], request: RecordAttempts) -> list[bytes]:
    """Return a recording as msgpack for each attempt; b"" where there is none, or where making it took too much time or memory.

    Args:
        subjects: by the group of calls, as it was judged.
        request: the attempts, the seconds after which the fork is ended, and the memory that it may not use.
    """
    with tempfile.TemporaryFile() as file:
        with contextlib.suppress(UnfinishedError):
            run_in_fork(lambda: _record_all(subjects, request, file.fileno()), request.seconds)
        file.seek(0)
        recorded = []
        while len(head := file.read(8)) == 8:  # the last one may be cut off
            size = int.from_bytes(head)
            data = file.read(size)
            recorded.append(data if len(data) == size else b"")
    return recorded + [b""] * (len(request.attempts) - len(recorded))


def _record_all(subjects: Mapping[int, LocalSubject], request: RecordAttempts, file: int) -> int:
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_AS, (most - request.spared_bytes, most))
    end = time.monotonic() + request.seconds
    for attempt in request.attempts:
        seconds = min(LONGEST, end - time.monotonic())
        data = _encoded(subjects[attempt.group], attempt, seconds * FOR_RUNS) if attempt.group in subjects else b""
        os.write(file, len(data).to_bytes(8) + data)
    return 0


def _encoded(subject: LocalSubject, attempt: Attempt, seconds: float) -> bytes:
    try:
        with Budget(seconds).in_force():
            if attempt.call is None:
                recording = subject.program_recording()
            else:
                recording = subject.recording(msgspec.msgpack.decode(attempt.call, type=Call), attempt.knows_gradients)
    except BaseException:  # noqa: BLE001 - the student's code may raise anything; the next attempt is recorded all the same
        return b""
    return b"" if recording is None else msgspec.msgpack.encode(recording)
