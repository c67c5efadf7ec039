"""Predict, then run: a prediction is compared with what PyTorch does when the check runs, never with a stored key."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import torch

from autograder.check.events import failed, show_passed
from autograder.check.learner import LearnerNames, find_value
from autograder.check.message import Incorrect, NotAttempted, message
from autograder.check.plan import Plan, Program, decorator
from autograder.check.programs.demonstrations import demonstration
from autograder.check.programs.program_picture import record_program, show_program
from autograder.check.shown_message import show_first
from autograder.locale.translations import translated
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import OUTCOMES, Outcome
from autograder.view.notebook import show, show_choices
from autograder.view.text.headline import meaning


def predicted(name: str) -> Callable[[Program], Program]:
    """Returns a decorator that runs the function below it, shows what autograd held, and checks the prediction.

    Args:
        name: the learner's variable that holds one of the four outcomes; while it is `...`, nothing is run
            or shown, so that the learner predicts first.

    Raises:
        NotAttempted: nothing has been predicted yet.
        Incorrect: something else happened, or the prediction is not one of the four words.
        Missing: the variable is not defined.
    """
    return decorator(lambda program: OutcomePrediction(name, program))


def predicted_value(name: str) -> Callable[[Program], Program]:
    """Returns a decorator that runs the function below it, compares what it returns with the prediction, and shows the picture.

    Args:
        name: the learner's variable: a number, a word, None, or a list of them; numbers may be off by 1 %, or by 0.005.

    Raises:
        NotAttempted: the prediction still contains `...`; nothing is run then.
        Incorrect: the function returns something else.
        Missing: the variable is not defined.
    """
    return decorator(lambda program: ValuePrediction(name, program))


@dataclass(frozen=True)
class _Prediction(Plan):
    """A program, and the name of the student's variable that predicts something about it."""

    name: str
    program: Callable[[], Any]

    asks: ClassVar = "value"

    @functools.cached_property
    def recording(self) -> Recording:
        """What autograd held while the program ran."""
        return record_program(self.program)

    def _show_right(self, found: str) -> None:
        show_passed(self.name, translated(", it is {outcome}, as you predicted", outcome=found))
        show_program(self.recording, self.program, from_start=True)

    def _refuse(self, told: str, guess: str) -> NoReturn:
        """Show what was wrong before the picture, and raise it."""
        wrong = Incorrect(told)
        show_first(wrong)
        show_program(self.recording, self.program, from_start=True)
        failed(self.name, guess)
        raise wrong


class OutcomePrediction(_Prediction):
    """One use of `predicted`."""

    def compare(self, names: LearnerNames) -> None:
        """Compare the predicted outcome with that of the program, and show the picture."""
        name, guess = self.name, self._guess(names)
        outcome = self.recording.verdict.outcome
        if guess == outcome:
            self._show_right(outcome)
            return
        told = message(
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
        self._refuse(told, guess)

    def _guess(self, names: LearnerNames) -> Outcome:
        name, guess = self.name, find_value(self.name, names)
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
        return outcome


class ValuePrediction(_Prediction):
    """One use of `predicted_value`."""

    @functools.cached_property
    def value(self) -> Any:
        """What the program returns."""
        return self.program()

    def compare(self, names: LearnerNames) -> None:
        """Compare the predicted value with that of the program, and show the picture."""
        guess, value = self._guess(names), self.value
        if _agree(guess, value):
            self._show_right(_shown(value))
            return
        told = message(
            translated("{name}: something else happened", name=self.name),
            saw=translated("you predicted {guess}", guess=_shown(guess)),
            expected=translated("{value}, which this program gives", value=_shown(value)),
            look_at=translated("the picture of the run: go on step by step until it surprises you"),
        )
        self._refuse(told, _shown(guess))

    def _guess(self, names: LearnerNames) -> Any:
        guess = _plain(find_value(self.name, names))
        if "..." in (known := _flat(guess)) or ... in known:
            raise NotAttempted(
                message(
                    translated("{name}: predict first, then run", name=self.name),
                    saw=translated("no prediction yet") if len(known) == 1 else translated("a prediction with a gap"),
                    expected=translated("your own value in place of each ..."),
                    look_at=translated("the cell above: write it, and run that cell"),
                )
            )
        return guess


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
