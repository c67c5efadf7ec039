"""Predict, then run: a prediction is compared with what PyTorch does when the check runs, never with a stored key."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from autograder.check.events import failed, passed
from autograder.check.learner import find_value
from autograder.check.memo import once
from autograder.check.message import Incorrect, NotAttempted, message
from autograder.check.programs.demonstrations import demonstration
from autograder.check.programs.program_picture import show_program
from autograder.check.shown_message import show_first
from autograder.locale.translations import translated
from autograder.tape import record
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import OUTCOMES, Outcome
from autograder.view.notebook import show, show_choices
from autograder.view.text.headline import meaning


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
        show_choices(
            name,
            translated("What will this program do?"),
            [(outcome, meaning(outcome)) for outcome in OUTCOMES],
        )
        raise NotAttempted(
            message(
                translated("{name}: predict first, then run", name=name),
                saw=translated("no prediction yet"),
                expected=translated("one of {outcomes}", outcomes=", ".join(OUTCOMES)),
                look_at=translated("the cell above: write the word between the quotes, and run it"),
            )
        )
    outcome = outcome_named(guess)
    if outcome is None:
        raise Incorrect(
            message(
                translated("{name}: this is not one of the four outcomes", name=name),
                saw=repr(guess)[:60],
                expected=translated("one of {outcomes}", outcomes=", ".join(OUTCOMES)),
                look_at=translated("the spelling of the word"),
            )
        )
    return lambda program: _judge(name, outcome, program)


def predicted_value(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Returns a decorator that runs the function below it, compares what it returns with the prediction, and shows the picture.

    Args:
        name: the learner's variable: a number, a word, None, or a list of them; numbers may be off by 1 %, or by 0.005.

    Raises:
        NotAttempted: the prediction still contains `...`; nothing is run then.
        Incorrect: the function returns something else.
        Missing: the variable is not defined.
    """
    guess = _plain(find_value(name))
    if "..." in (known := _flat(guess)) or ... in known:
        raise NotAttempted(
            message(
                translated("{name}: predict first, then run", name=name),
                saw=translated("no prediction yet") if len(known) == 1 else translated("a prediction with a gap"),
                expected=translated("your own value in place of each ..."),
                look_at=translated("the cell above: write it, and run that cell"),
            )
        )
    return lambda program: _judge_value(name, guess, program)


def observed(program: Callable[[], Any]) -> Callable[[], Any]:
    """Runs the function below it once, shows what autograd held, and returns the function; nothing is checked."""
    show_program(demonstration(program), program)
    return program


def versions_hidden(program: Callable[[], Any]) -> Callable[[], Any]:
    """Runs the function below it once, and shows a picture whose version counters the learner sets; returns the function."""
    show(demonstration(program), counters=True)
    return program


def outcome_named(guess: Any) -> Outcome | None:
    """Returns the outcome that a learner's text names, in any case and with spaces or hyphens; None where it names none."""
    words = str(guess).lower().replace("-", " ").split()
    return next((outcome for outcome in OUTCOMES if outcome.split("-") == words), None)


def _judge(name: str, guess: Outcome, program: Callable[[], Any]) -> Callable[[], Any]:
    recording = once(("recording", name), lambda: record(program))
    outcome = recording.verdict.outcome
    if guess == outcome:
        return _right(name, outcome, recording, program)
    wrong = Incorrect(
        message(
            translated(
                "{name}: something else happened. You predicted {guess}. It was {outcome}.",
                name=name,
                guess=guess,
                outcome=outcome,
            ),
            saw=meaning(outcome),
            expected=translated("by your prediction: {meaning}", meaning=meaning(guess)),
            look_at=translated("the picture of the run: go on step by step until it surprises you"),
        )
    )
    raise _told(wrong, name, recording, program, guess)


def _judge_value(name: str, guess: Any, program: Callable[[], Any]) -> Callable[[], Any]:
    value = once(("value", name), program)
    recording = once(("recording", name), lambda: record(program))
    if _agree(guess, value):
        return _right(name, _shown(value), recording, program)
    wrong = Incorrect(
        message(
            translated("{name}: something else happened", name=name),
            saw=translated("you predicted {guess}", guess=_shown(guess)),
            expected=translated("{value}, which this program gives", value=_shown(value)),
            look_at=translated("the picture of the run: go on step by step until it surprises you"),
        )
    )
    raise _told(wrong, name, recording, program, _shown(guess))


def _right(name: str, outcome: str, recording: Recording, program: Callable[[], Any]) -> Callable[[], Any]:
    passed(name, translated(", it is {outcome}, as you predicted", outcome=outcome))
    show_program(recording, program, from_start=True)
    return program


def _told(wrong: Incorrect, name: str, recording: Recording, program: Callable[[], Any], guess: str = "") -> Incorrect:
    """Says what was wrong before the picture is shown, and returns what to raise."""
    show_first(wrong)
    show_program(recording, program, from_start=True)
    failed(name, guess)
    return wrong


def _plain(guess: Any) -> Any:
    """Returns a prediction with lists and numbers in place of tensors: a gradient may be written as one."""
    if isinstance(guess, list | tuple):
        return [_plain(one) for one in guess]
    return guess.tolist() if isinstance(guess, torch.Tensor) else guess


def _flat(value: Any) -> list[Any]:
    return [part for item in value for part in _flat(item)] if isinstance(value, list | tuple) else [value]


def _agree(guess: Any, value: Any) -> bool:
    """Returns whether a prediction is the value, to two digits; lists and tuples by their items, words in any case."""
    if isinstance(value, list | tuple):
        same_length = isinstance(guess, list | tuple) and len(guess) == len(value)
        return same_length and all(map(_agree, guess, value))
    if isinstance(value, str) or value is None or isinstance(guess, bool) or not isinstance(guess, int | float):
        return str(guess).strip().lower() == str(value).lower()
    return math.isclose(guess, value, rel_tol=0.01, abs_tol=0.005)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)[:60]
