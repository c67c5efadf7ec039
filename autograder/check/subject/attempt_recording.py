"""What autograd held while an answer ran with the inputs of its check."""

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
"""How long one run, and all runs together, may take: a picture is help, not a verdict."""


def record_call(
    target: Callable[..., Any], call: Callable[[], object], *, knows_gradients: bool = False
) -> Recording | None:
    """Returns the recording of a call; None where it cannot be run again, or its code has no text.

    Args:
        target: the function, or the `nn.Module` class, whose lines are shown.
        call: makes fresh inputs, calls it, and runs backward; returns the gradients by name.
        knows_gradients: the right ones stand beside them in the picture, so they need not be found by many more runs.
    """
    try:
        code = code_of(own_function(target))
        text = "".join(linecache.getlines(code.co_filename))
        program = Program("your answer", text, lambda _backwards: call(), code.co_filename, (target,))
        with Budget(min(ALL_RUNS, budget_in_force().left)).in_force():
            return record_program(program, SECONDS, Scope(knows_gradients=knows_gradients)) if text else None
    except ProgramError as error:
        return error.recording if isinstance(error.recording, Recording) else None
