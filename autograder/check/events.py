"""What happens when an exercise passes or fails: a printed line for a pass, and a call to every listener."""

from __future__ import annotations

from collections.abc import Callable

from autograder.locale.translations import translated

_listeners: list[Callable[[str], None]] = []
_listeners_to_failures: list[Callable[[str, str], None]] = []


def on_pass(listener: Callable[[str], None]) -> None:
    """Calls `listener` with the exercise's id whenever a check passes from now on."""
    if listener not in _listeners:
        _listeners.append(listener)


def on_fail(listener: Callable[[str, str], None]) -> None:
    """Calls `listener` with the exercise's id and the choice whenever a wrong answer to it is refused from now on.

    The choice is the outcome or the value that was predicted, "" where the answer is a program.
    """
    if listener not in _listeners_to_failures:
        _listeners_to_failures.append(listener)


def failed(exercise: str, choice: str = "") -> None:
    """Tells the listeners that a wrong answer was refused."""
    for listener in _listeners_to_failures:
        listener(exercise, choice)


def passed(exercise: str, detail: str = "") -> None:
    """Prints that the exercise is correct, and tells the listeners."""
    print(f"{exercise}: {translated('correct')}{detail}")
    for listener in _listeners:
        listener(exercise)
