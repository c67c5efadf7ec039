"""The registry of isolation levels. Imports nothing that takes time, and works on every system."""

from __future__ import annotations

from autograder.grade.sandbox.isolation.bubblewrap import BubblewrapLevel
from autograder.grade.sandbox.isolation.isolation_level import IsolationError, IsolationLevel
from autograder.grade.sandbox.isolation.process import ProcessLevel
from autograder.grade.sandbox.isolation.second_user import SecondUserLevel

# By name; strongest first.
LEVELS: dict[str, IsolationLevel] = {
    level.name: level for level in (BubblewrapLevel(), SecondUserLevel(), ProcessLevel())
}
STRONGEST = next(iter(LEVELS))


def known_level(name: str) -> IsolationLevel:
    """Returns the level of this name, whether or not this machine reaches it.

    Raises:
        IsolationError: there is no such level.
    """
    if name not in LEVELS:
        raise IsolationError(f"there is no isolation level {name!r}. Choose one of: {', '.join(LEVELS)}")
    return LEVELS[name]


def require_level(name: str) -> IsolationLevel:
    """Returns the level of this name.

    Raises:
        IsolationError: there is no such level, or this machine does not reach it.
    """
    level = known_level(name)
    if level.obstacle:
        weaker = next((other for other in LEVELS.values() if not other.obstacle), None)
        raise IsolationError(
            f"this machine does not reach the isolation level {name!r}, so nothing was graded: {level.obstacle}."
            + (f" `--isolation {weaker.name}` works here; {weaker.defends}" if weaker else "")
        )
    return level
