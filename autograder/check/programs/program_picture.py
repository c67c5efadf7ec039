"""The picture of a program that stands in a cell, with a button to change the program."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from autograder.check.plan import require_known_names
from autograder.check.subject.learner_code import source_of
from autograder.tape import record
from autograder.tape.recording.schema import Recording
from autograder.view import show


def record_program(program: Callable[[], Any]) -> Recording:
    """Return the recording of a test cell's own program."""
    recording = record(program)
    if recording.verdict.error is not None:
        require_known_names(recording.verdict.error.type, recording.verdict.error.message)
    return recording


def show_program(recording: Recording, program: Callable[[], Any], from_start: bool = False) -> None:
    """Shows a recording of `program`; where it is live and the program's text is known, the program can be changed there.

    Args:
        from_start: a live picture opens at the first step.
    """
    show(recording, from_start=from_start, playground=lambda: _playground(program))


def _playground(program: Callable[[], Any]) -> Callable[[Any], None] | None:
    """Returns what lets a live picture's program be changed; None where its lines cannot be moved, or its text is not known."""
    # Where submissions run, the repairs are not there to be imported, and so no playground is: a lesson must still load there.
    with contextlib.suppress(OSError, TypeError, ModuleNotFoundError):
        from autograder.play.playground import playground_of

        made = playground_of(program, source_of(program))
        return made.attach if made else None
    return None
