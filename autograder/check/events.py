"""The events "an exercise passed" and "an answer was wrong": the line for a pass, and the listeners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from IPython.core.getipython import get_ipython
from IPython.display import display

from autograder.check.answer_cell import judged_run
from autograder.check.learner import LearnerNames
from autograder.check.plan import Plan, plan_or_compare
from autograder.check.shown_message import GREEN, card, is_learners_notebook
from autograder.locale.translations import translated

_listeners: list[Callable[[str], None]] = []
_listeners_to_failures: list[Callable[[str, str], None]] = []
_listeners_to_demonstrations: list[Callable[[str], None]] = []


_wrong: dict[str, int | None] = {}
"""Prediction → the run of a cell that last showed it as wrong, without an error."""


def _run() -> int | None:
    """Return the number of the running cell; None outside of a notebook."""
    return getattr(get_ipython(), "execution_count", None)


def record_wrong_prediction(prediction: str) -> None:
    """Keep `passed` in the same cell from printing that the exercise is correct."""
    _wrong[prediction] = _run()


def on_pass(listener: Callable[[str], None]) -> None:
    """Call `listener` with the exercise's id whenever a check passes from now on."""
    if listener not in _listeners:
        _listeners.append(listener)


def on_fail(listener: Callable[[str, str], None]) -> None:
    """Call `listener` with the exercise's id and the choice whenever an answer is found wrong from now on.

    The choice is the predicted outcome or value; "" if the answer is a program.
    """
    if listener not in _listeners_to_failures:
        _listeners_to_failures.append(listener)


def failed(exercise: str, choice: str = "") -> None:
    """Call the listeners for a wrong answer."""
    for listener in _listeners_to_failures:
        listener(exercise, choice)


def on_demonstration(listener: Callable[[str], None]) -> None:
    """Call `listener` with the name of each demonstration, and of each wrong prediction, whose picture is shown from now on."""
    if listener not in _listeners_to_demonstrations:
        _listeners_to_demonstrations.append(listener)


def demonstrated(program: str) -> None:
    """Call the listeners for a demonstration or a wrong prediction, below its picture."""
    for listener in _listeners_to_demonstrations:
        listener(program)


def passed(exercise: str, detail: str = "") -> None:
    """Print the line for a correct exercise and call the listeners; a test cell calls this after its checks."""
    plan_or_compare(PassedPlan(exercise, detail))


@dataclass(frozen=True)
class PassedPlan(Plan):
    """The plan of `passed`, which prints a line and does not look up an answer."""

    name: str
    detail: str = ""

    def compare(self, names: LearnerNames) -> None:
        """Print the line, unless a prediction of the same cell was wrong."""
        wrong = [name for name, run in _wrong.items() if run == _run()]
        if wrong:
            print(translated("{exercise}: not yet, because of {names}", exercise=self.name, names=", ".join(wrong)))
        else:
            show_passed(self.name, self.detail)


def show_passed(exercise: str, detail: str = "") -> None:
    """Print the line for a correct exercise, and call the listeners."""
    _wrong.pop(exercise, None)
    line = Passed(exercise, detail, judged_run(exercise))
    display(line) if is_learners_notebook() else print(repr(line))
    for listener in _listeners:
        listener(exercise)


@dataclass(frozen=True)
class Passed:
    """The line for a correct exercise, and what the check compared; green in a notebook.

    Attributes:
        exercise: the exercise's id.
        detail: the compared values and gradients, in parentheses; may be "".
        judged: the run of the cell that was judged, shown in a notebook.
    """

    exercise: str
    detail: str
    judged: str = ""

    def __repr__(self) -> str:
        return f"{self.exercise}: {translated('correct')}{self.detail}"

    def _repr_html_(self) -> str:
        rows = [(translated("judged"), self.judged)] if self.judged else []
        return card("✓", GREEN, f"{self.exercise}: {translated('correct')}", rows, self.detail)
