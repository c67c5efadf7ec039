"""The picture of a program in a cell, with a button to edit the program."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from IPython.core.getipython import get_ipython

from autograder.check.plan import require_known_names
from autograder.check.subject.learner_code import source_of
from autograder.tape import record
from autograder.tape.recording.schema import Recording
from autograder.view import show

_last_run: ContextVar[int | None] = ContextVar("last_run", default=None)
"""The execution count of the last run of a cell that showed a program."""


def record_program(program: Callable[[], Any]) -> Recording:
    """Return the recording of a test cell's own program."""
    recording = record(program)
    if recording.verdict.error is not None:
        require_known_names(recording.verdict.error.type, recording.verdict.error.message)
    return recording


def show_program(
    recording: Recording, program: Callable[[], Any], from_start: bool = False, graph_first: bool = False
) -> None:
    """Show a recording of `program`, which can be edited in a live picture if its source is known.

    The pictures of the second program and those after it in one run of a cell are folded.

    Args:
        from_start: whether a live picture opens at the first step.
        graph_first: whether the graph is open below the timeline, as it is with `from_start`.
    """
    run = getattr(get_ipython(), "execution_count", None)
    title = program.__name__ if run is not None and run == _last_run.get() else ""
    _last_run.set(run)
    show(recording, False, from_start, lambda: _playground(program), title=title, graph_first=graph_first)


def _playground(program: Callable[[], Any]) -> Callable[[Any], None] | None:
    """Return a function that attaches the editor to a live picture; None if the lines cannot be moved or have no source."""
    # In the process that runs submissions, the playground cannot be imported, but a lesson must still load there.
    with contextlib.suppress(OSError, TypeError, ModuleNotFoundError):
        from autograder.check.playground.playground import playground_of

        made = playground_of(program, source_of(program))
        return made.attach if made else None
    return None
