"""What a stand-in raises when something cannot cross, or when the learner's own exceptions may not."""

from __future__ import annotations

from typing import Any, Protocol

from autograder.check.message import Unsolved

TEST_TOOLS = ("unittest", "pytest", "_pytest", "nose", "doctest", "IPython", "asyncio", "concurrent")


class LearnerError(Exception):
    """The learner's code raised an exception that has no counterpart here, or one that would steer the test."""


class NotPlain(Unsolved):
    """A value of the learner's cannot be sent from its process; the message says what can."""


class Asks(Protocol):
    """What a stand-in needs of the session."""

    def operate(self, operation: str, *operands: Any) -> Any:
        """Returns what the operation returns in the worker."""

    def check_member(self, kind: type, claims: type | None, name: str) -> None:
        """Raises NotPlain if a test may not call this on an object of a learner's class."""

    def is_learners(self, error: object) -> bool:
        """Returns whether an exception came out of the worker."""

    def refuse(self, reason: str) -> NotPlain:
        """Returns the exception to raise, and notes that this test cannot be judged here."""


def steers(kind: type) -> bool:
    """Returns whether an exception of this class could end a test early instead of failing it.

    `zip(map(f, inputs), expected)` stops at the first StopIteration; SystemExit ends the process; unittest.SkipTest skips.
    """
    if not issubclass(kind, Exception) or issubclass(kind, (StopIteration, StopAsyncIteration)):
        return True
    return any(base.__module__.partition(".")[0] in TEST_TOOLS for base in kind.__mro__)
