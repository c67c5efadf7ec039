"""Choose the part of a long run to record in full. Only the gradients of the other parts are compared."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass

from msgspec import structs

from autograder.locale.messages import Message
from autograder.tape.observe.left_gradients import LeftGradients
from autograder.tape.oracle.gradient_comparison import ROUNDING, gradients_of
from autograder.tape.recording.verdict_types import Excerpt
from autograder.tape.run.finished_run import Run
from autograder.tape.run.programs.source_text import ProgramError

LONG = 3_000  # largest number of nodes in all backward calls that are recorded in full, at about 1 ms per node
BEYOND = 4  # number of backward calls to run after the harmed one; a GAN makes several before each of its networks is updated
FEW = 32  # number of backward calls of a long run that are compared first, because most harms occur in every step
SHOWN = 2  # number of recorded backward calls of a correct program; the second shows the effects of the first


@dataclass(frozen=True)
class Scope:
    """The requested part of a run."""

    calls: int | None = None  # maximum number of backward calls; None for the whole run
    # 0-based index of the backward call to record; -1 for the last, None for the one that determines the outcome
    shown: int | None = None
    check_gradients: bool = False  # whether to compare the gradients of every loss with finite differences
    # whether the caller has the correct gradients. Finite differences are then skipped if private copies of saved
    # tensors already show a wrong gradient, because they would take ten times as long as all other runs.
    knows_gradients: bool = False
    # whether only the outcome matters, so that no correct gradient is computed element by element
    is_proof: bool = False
    # whether the program has run before in this process, so that the recorded run also serves as the plain one
    has_run: bool = False
    has_steps: bool = True  # whether to record an error that is unrelated to autograd step by step


WHOLE = Scope()


def is_long(plain: Run, scope: Scope) -> bool:
    """Return whether to record only a part of the run: not of one with threads, whose calls have another order in each run."""
    if any(call.thread for call in plain.calls):
        return False
    is_much = len(plain.calls) > 1 and sum(call.nodes for call in plain.calls) > LONG
    return scope.shown is not None or plain.is_truncated or is_much


def calls_beyond_error(error: object, calls: Sized) -> int | None:
    """Return the number of calls after which later runs stop, None without an error: the fixed program might train for hours."""
    return None if error is None else len(calls) + BEYOND


def excerpt_of(plain: Run, cloned_saves: Run, scope: Scope, left: LeftGradients) -> Excerpt:
    """Return the backward calls to record: the decisive call, and those since its graph was started.

    Without a decisive call, the calls before a first step of `without_gradient` (of a parameter that had no gradient in any
    step) are recorded if they are few; without such a step, the first call that computes nan or inf is decisive. Without
    either, the calls around the first steps for others than a leaf with a gradient (`without_step`) are recorded, or the
    first call of `autograd.grad` for data that makes no graph.

    Raises:
        ProgramError: if the run did not make the requested call.
    """
    calls, checked = len(plain.calls), len(cloned_saves.calls) if cloned_saves.error is None else 0
    decisive = _asked(plain, scope)
    if decisive is None:
        decisive = _decisive(plain, cloned_saves)
    empty = [step for step in left.without_gradient if step.calls <= calls and not step.is_updated]
    if decisive is None and not empty:
        decisive = gradients_of(plain).first_not_finite()
    if decisive is None:
        parts = [(step.before, step.calls) for step in empty] + [part for part in left.without_step if part[1] <= calls]
        if left.before_derivative is not None:
            parts.append((left.before_derivative, max(left.before_derivative + SHOWN, left.derivative_used)))
        few = (part for part in parts if sum(call.nodes for call in plain.calls[slice(*part)]) <= LONG)
        before, last = next(few, (0, 0))
        last = min(max(last, before + SHOWN), calls)
        return Excerpt(calls, min(calls, checked), min(before + 1, last), last, not plain.is_truncated)
    oldest = plain.calls[decisive].oldest if decisive < len(plain.calls) else None
    # The excerpt starts with the call that created the first node of the decisive call's graph.
    first = decisive if oldest is None else sum(call.ended <= oldest for call in plain.calls[:decisive])
    # Accumulation into a `.grad` is seen after the call; the next call with the same graph reads what it overwrote.
    last = max(first, min(decisive + plain.calls[min(decisive, calls - 1)].keeps_graph, calls - 1))
    return Excerpt(calls, min(calls, checked), first + 1, last + 1, not plain.is_truncated)


def recorded_part(excerpt: Excerpt | None, plain: Run, cloned_saves: Run, observed: Run) -> Excerpt | None:
    """Return the excerpt without the backward calls that the observed run did not make before its time was up."""
    calls, made = len(plain.calls), len(observed.calls)
    is_cut = observed.is_truncated and plain.error is None and not any(call.thread for call in plain.calls)
    if excerpt is not None:
        return structs.replace(excerpt, last=made) if is_cut and excerpt.first <= made < excerpt.last else excerpt
    if not is_cut or made >= calls:
        return None
    checked = len(cloned_saves.calls) if cloned_saves.error is None else 0
    return Excerpt(calls, min(calls, checked), 1, made, not plain.is_truncated)


def _asked(plain: Run, scope: Scope) -> int | None:
    calls = len(plain.calls)
    if scope.shown is None:
        return None
    if not -calls <= scope.shown < calls:
        last = Message("step.last|the last step")
        asked = last if scope.shown < 0 else Message("step.number|step {number}", number=scope.shown + 1)
        text = "step.none|There is no {asked} to record; backward calls of the program: {calls}. Name one of these."
        raise ProgramError.of(text, asked=asked, calls=calls)
    return scope.shown % calls


def _decisive(plain: Run, cloned_saves: Run) -> int | None:
    """Return the index of the backward call that raised, or of the first with a wrong gradient, or None if there is no such call."""
    if plain.error is not None:
        return len(plain.calls) - (1 if plain.in_backward and plain.calls else 0)
    if plain.calls and plain.calls[-1].error is not None:
        return len(plain.calls) - 1
    return gradients_of(plain).first_difference(gradients_of(cloned_saves), ROUNDING)
