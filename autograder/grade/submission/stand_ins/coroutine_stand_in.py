"""A coroutine of the learner's on the trusted side: awaited, it runs to its end in the worker, in an event loop of its own."""

from __future__ import annotations

import types
from collections.abc import Coroutine, Generator
from typing import Any

from autograder.grade.submission.stand_ins.refusals import Asks


class CoroutineStandIn(Coroutine[Any, Any, Any]):
    """What calling one of the learner's coroutine functions returns.

    Args:
        asks: the session.
    """

    def __init__(self, asks: Asks) -> None:
        self._asks = asks

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What `inspect.iscoroutine` asks for."""
        return types.CoroutineType

    def __await__(self) -> Generator[Any, Any, Any]:
        """Returns what the coroutine returns; nothing else runs in the meantime."""
        return self._asks.operate("await", self)
        yield

    def send(self, _: Any) -> Any:
        """Runs it, as an event loop does with a task."""
        raise StopIteration(self._asks.operate("await", self))

    def throw(self, error: Any, *_: Any) -> Any:
        """Raises what an event loop throws into a task that it cancels."""
        raise error

    def close(self) -> None:
        """Leaves it as it is; a coroutine that is never awaited does nothing."""
