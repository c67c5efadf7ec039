"""The registry of isolation levels. Imports nothing that takes time, and works on every system."""

from __future__ import annotations

from autograder.grade.sandbox.isolation.bubblewrap import BubblewrapLevel
from autograder.grade.sandbox.isolation.isolation_level import IsolationError, IsolationLevel
from autograder.grade.sandbox.isolation.process import ProcessLevel

# By name; strongest first.
LEVELS: dict[str, IsolationLevel] = {level.name: level for level in (BubblewrapLevel(), ProcessLevel())}
STRONGEST = next(iter(LEVELS))


def require_level(name: str) -> IsolationLevel:
    """Returns the level of this name.

    Raises:
        IsolationError: there is no such level, or this machine does not reach it.
    """
    level = LEVELS.get(name)
    if level is None:
        raise IsolationError(f"there is no isolation level {name!r}. Choose one of: {', '.join(LEVELS)}")
    if level.obstacle:
        weaker = next((other for other in LEVELS.values() if not other.obstacle), None)
        raise IsolationError(
            f"this machine does not reach the isolation level {name!r}, so nothing was graded: {level.obstacle}."
            + (f" `--isolation {weaker.name}` works here; {weaker.defends}" if weaker else "")
        )
    return level
