"""What a grader need not find anew for every submission: drawn trials, recordings of the course's own programs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

Thing = TypeVar("Thing")

_memory: ContextVar[dict[Hashable, Any] | None] = ContextVar("memory", default=None)


@contextlib.contextmanager
def remembering(memory: dict[Hashable, Any]) -> Iterator[None]:
    """A block in which `once` keeps what it makes; for one check cell whose meaning no submission can change."""
    token = _memory.set(memory)
    try:
        yield
    finally:
        _memory.reset(token)


def once(key: Hashable, make: Callable[[], Thing]) -> Thing:
    """Returns what `make` returns; inside `remembering`, what it returned the first time for this key."""
    memory = _memory.get()
    if memory is None:
        return make()
    if key not in memory:
        memory[key] = make()
    return memory[key]
