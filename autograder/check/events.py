"""The events "an exercise passed" and "an answer was wrong": the line for a pass, and the listeners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from IPython.core.getipython import get_ipython

from autograder.check.answer_cell import judged_run
from autograder.check.learner import LearnerNames
from autograder.check.plan import Plan, plan_or_compare
from autograder.check.shown_message import GREEN, card, show_card
from autograder.locale.translations import translated

Event = Literal["passed", "failed", "demonstrated"]
_listeners: dict[Event, list[Callable[..., None]]] = {"passed": [], "failed": [], "demonstrated": []}

_wrong: dict[str, int | None] = {}  # prediction → the run of a cell that last showed it as wrong, without an error


def current_run() -> int | None:
    """Return the number of the running cell; None outside of a notebook."""
    return getattr(get_ipython(), "execution_count", None)


def record_wrong_prediction(prediction: str) -> None:
    """Keep `passed` in the same cell from printing that the exercise is correct."""
    _wrong[prediction] = current_run()


def listen(event: Event, *listeners: Callable[..., None]) -> None:
    """Call each of the listeners, once, whenever the event happens from now on.

    The argument is the id of the exercise that "passed", or the name of the program or wrong prediction whose picture was
    "demonstrated". For "failed" there are two: the exercise's id, and the predicted outcome or value; "" for a program.
    """
    _listeners[event] += [listener for listener in listeners if listener not in _listeners[event]]


def notify(event: Event, *arguments: str) -> None:
    """Call the listeners to an event."""
    for listener in _listeners[event]:
        listener(*arguments)


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
        wrong = [name for name, run in _wrong.items() if run == current_run()]
        if wrong:
            print(translated("{exercise}: not yet, because of {names}", exercise=self.name, names=", ".join(wrong)))
        else:
            show_passed(self.name, self.detail)


def show_passed(exercise: str, detail: str = "") -> None:
    """Show the line for a correct exercise, as a green card in a notebook, and call the listeners."""
    _wrong.pop(exercise, None)
    verdict, run = f"{exercise}: {translated('correct')}", judged_run(exercise)
    rows = [(translated("judged"), run)] if run else []
    show_card(f"{verdict}{detail}", card("✓", GREEN, verdict, rows, detail))
    notify("passed", exercise)
