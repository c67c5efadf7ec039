"""What happens when an exercise passes: one printed line, and a call to every listener."""

from __future__ import annotations

from collections.abc import Callable

_listeners: list[Callable[[str], None]] = []


def on_pass(listener: Callable[[str], None]) -> None:
    """Calls `listener` with the exercise's id whenever a check passes from now on."""
    if listener not in _listeners:
        _listeners.append(listener)


def passed(exercise: str, detail: str = "") -> None:
    """Prints that the exercise is correct, and tells the listeners."""
    print(f"{exercise}: correct{detail}")
    for listener in _listeners:
        listener(exercise)
