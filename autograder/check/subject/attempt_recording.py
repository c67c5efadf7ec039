"""The recording of an answer with the inputs of its check."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

from autograder.check.subject.learner_code import own_function
from autograder.tape.diagnose.excerpt import Scope
from autograder.tape.diagnose.record import record_program
from autograder.tape.recording.schema import Recording
from autograder.tape.run.budget import Budget, budget_in_force
from autograder.tape.run.programs.program import Program
from autograder.tape.run.programs.source_text import ProgramError, code_of

SECONDS, ALL_RUNS = 2.0, 6.0
"""Time limits for one run and for all runs together, in seconds. They are short because a picture is only help."""


def record_call(
    target: Callable[..., Any], call: Callable[[], object], *, knows_gradients: bool = False
) -> Recording | None:
    """Return the recording of a call; None if the call cannot be repeated or its code has no source.

    Args:
        target: the function, or the `nn.Module` class, whose lines are shown.
        call: creates new inputs, calls the target, and runs backward; returns the gradients by name.
        knows_gradients: whether the caller has the right gradients; if so, they are not computed by further runs.
    """
    try:
        code = code_of(own_function(target))
        text = "".join(linecache.getlines(code.co_filename))
        program = Program("your answer", text, lambda _backwards: call(), code.co_filename, (target,))
        with Budget(min(ALL_RUNS, budget_in_force().left)).in_force():
            return record_program(program, SECONDS, Scope(knows_gradients=knows_gradients)) if text else None
    except ProgramError as error:
        return error.recording if isinstance(error.recording, Recording) else None
