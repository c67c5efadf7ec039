"""A file explained and repaired: the recording of what it does, with the changes of its source that were shown to work."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from autograder.tape.diagnose.record import explain_file
from autograder.tape.recording.schema import Recording
from autograder.tape.repair.repairs import remaker, repair


def explain_and_repair(path: str | os.PathLike, function: str | None = None) -> Recording:
    """Returns the recording of a file's run, its verdict completed by fixes and by what is to be said about them.

    Args:
        path: a Python file, which is only read.
        function: one function of it, as in `FILE::FUNCTION`.

    Raises:
        ProgramError: it cannot be run; the message says in one sentence what was seen and what to do.
    """
    recording = explain_file(path, function)
    verdict = recording.verdict
    if verdict.outcome == "correct":
        return recording
    name = os.fspath(path)
    found = repair(Path(path).read_text("utf-8"), verdict, file=name, remake=remaker(name, function))
    completed = msgspec.structs.replace(verdict, fixes=found.fixes, notes=(*verdict.notes, *found.notes))
    return msgspec.structs.replace(recording, verdict=completed)
