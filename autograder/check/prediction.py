"""Predict, then run: a prediction is compared with what PyTorch does when the check runs, never with a stored key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autograder.check.demonstrations import demonstration
from autograder.check.events import passed
from autograder.check.learner import find_value
from autograder.check.memo import once
from autograder.check.message import Incorrect, NotAttempted, message
from autograder.tape import record
from autograder.tape.recording.verdict_types import OUTCOMES, Outcome
from autograder.view import show
from autograder.view.text.headline import MEANING


def predicted(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Returns a decorator that runs the function below it, shows what autograd held, and checks the prediction.

    Args:
        name: the learner's variable that holds one of the four outcomes; while it is `...`, nothing is run
            or shown, so that the learner predicts first.

    Raises:
        NotAttempted: nothing has been predicted yet.
        Incorrect: something else happened, or the prediction is not one of the four words.
        Missing: the variable is not defined.
    """
    guess = find_value(name)
    if guess is ... or guess == "...":
        raise NotAttempted(
            message(
                f"{name}: predict first, then run",
                saw="no prediction yet",
                expected=f"one of {', '.join(OUTCOMES)}",
                look_at="the cell above: write the word between the quotes, and run it",
            )
        )
    outcome = _outcome(guess)
    if outcome is None:
        raise Incorrect(
            message(
                f"{name}: this is not one of the four outcomes",
                saw=repr(guess)[:60],
                expected=f"one of {', '.join(OUTCOMES)}",
                look_at="the spelling of the word",
            )
        )
    return lambda program: _judge(name, outcome, program)


def observed(program: Callable[[], Any]) -> Callable[[], Any]:
    """Runs the function below it once, shows what autograd held, and returns the function; nothing is checked."""
    show(demonstration(program))
    return program


def _outcome(guess: Any) -> Outcome | None:
    """Returns the outcome that a learner's text names, in any case and with spaces or hyphens; None where it names none."""
    words = str(guess).lower().replace("-", " ").split()
    return next((outcome for outcome in OUTCOMES if outcome.split("-") == words), None)


def _judge(name: str, guess: Outcome, program: Callable[[], Any]) -> Callable[[], Any]:
    recording = once(("recording", name), lambda: record(program))
    outcome = recording.verdict.outcome
    if guess == outcome:
        passed(name, f", it is {outcome}, as you predicted")
        show(recording, from_start=True)
        return program
    wrong = Incorrect(
        message(
            f"{name}: something else happened. You predicted {guess}. It was {outcome}.",
            saw=MEANING[outcome],
            expected=f"by your prediction: {MEANING[guess]}",
            look_at="the picture of the run: go on step by step until it surprises you",
        )
    )
    wrong.print_first()
    show(recording, from_start=True)
    raise wrong
