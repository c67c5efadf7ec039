"""Which part of a long run is recorded in full; of the rest only the gradients are compared."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass

from autograder.locale.translations import in_english
from autograder.tape.oracle.gradient_comparison import SAME, first_difference, gradients_of
from autograder.tape.recording.verdict_types import Excerpt
from autograder.tape.run.engine import Backward
from autograder.tape.run.finished_run import Run
from autograder.tape.run.programs.source_text import ProgramError

LONG = 3_000  # nodes of all backward calls together that are recorded in full: a millisecond each
BEYOND = 4  # backward calls after the harmed one that are still run: a GAN makes several before each of its networks is updated
FEW = 32  # backward calls of a long run that are compared before the others: most harms are done in every step
SHOWN = 2  # backward calls that are recorded of a right program: the second shows what the first left behind


@dataclass(frozen=True)
class Scope:
    """What of a program's run is asked for.

    Attributes:
        calls: the run ends before the backward call after so many; None for all of it.
        shown: the number (from 0) of the backward call to record; -1 for the last, None for the one that decides the outcome.
        check_gradients: whether every loss is varied, and its gradients compared with the slopes found.
        knows_gradients: whether the caller has the right gradients; where private copies of what is saved already show that one is
            wrong, no loss is varied then, which would take ten times as long as all other runs.
        is_proof: whether only the outcome is asked for: then no right gradient is computed entry by entry.
        has_steps: whether an error that has nothing to do with autograd is recorded step by step, too.
    """

    calls: int | None = None
    shown: int | None = None
    check_gradients: bool = False
    knows_gradients: bool = False
    is_proof: bool = False
    has_steps: bool = True


WHOLE = Scope()


def is_long(plain: Run, scope: Scope) -> bool:
    """Whether only a part of the run is recorded in full; calls in several threads come in another order each time."""
    if any(call.thread for call in plain.calls):
        return False
    is_much = len(plain.calls) > 1 and sum(call.nodes for call in plain.calls) > LONG
    return scope.shown is not None or plain.is_cut or is_much


def calls_beyond_error(error: object, calls: Sized) -> int | None:
    """Return the number of backward calls after which later runs stop, if the program raised after that; else None.

    Without the error, what was meant to be a training run of hours goes on.
    """
    return None if error is None else len(calls) + BEYOND


def excerpt_of(plain: Run, cloned_saves: Run, scope: Scope) -> Excerpt:
    """Returns the backward calls to record: the decisive one, and all from which on its graph was made.

    Raises:
        ProgramError: the call that was asked for was not made.
    """
    calls, checked = len(plain.calls), len(cloned_saves.calls) if cloned_saves.error is None else 0
    decisive = _asked(plain, scope)
    if decisive is None:
        decisive = _decisive(plain, cloned_saves)
    if decisive is None:
        return Excerpt(calls, min(calls, checked), 1, min(SHOWN, calls), not plain.is_cut)
    first = _made_since(plain.calls, decisive)
    return Excerpt(calls, min(calls, checked), first + 1, max(first, min(decisive, calls - 1)) + 1, not plain.is_cut)


def _asked(plain: Run, scope: Scope) -> int | None:
    calls = len(plain.calls)
    if scope.shown is None:
        return None
    if not -calls <= scope.shown < calls:
        asked = in_english("the last step") if scope.shown < 0 else in_english("step {number}", number=scope.shown + 1)
        raise ProgramError(
            in_english(
                "There is no {asked} to record; backward calls of the program: {calls}. Name one of these.",
                asked=asked,
                calls=calls,
            )
        )
    return scope.shown % calls


def _decisive(plain: Run, cloned_saves: Run) -> int | None:
    """Returns the number of the backward call that raised, or the first that gave a wrong gradient; None where all is right."""
    if plain.error is not None:
        return len(plain.calls) - (1 if plain.in_backward and plain.calls else 0)
    if plain.calls[-1].error is not None:
        return len(plain.calls) - 1
    return first_difference(gradients_of(plain), gradients_of(cloned_saves), SAME)


def _made_since(calls: list[Backward], decisive: int) -> int:
    """Returns the number of calls that had been made when the first node of a call's graph was."""
    oldest = calls[decisive].oldest if decisive < len(calls) else None
    return decisive if oldest is None else sum(call.ended <= oldest for call in calls[:decisive])
