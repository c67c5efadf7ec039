"""What a grader computes once for all submissions: drawn trials, recordings of the course's own programs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

Value = TypeVar("Value")

_memory: ContextVar[dict[Hashable, Any] | None] = ContextVar("memory", default=None)


@contextlib.contextmanager
def use_memo(memory: dict[Hashable, Any]) -> Iterator[None]:
    """A block in which `once` keeps its results; for a check cell that means the same for every submission."""
    token = _memory.set(memory)
    try:
        yield
    finally:
        _memory.reset(token)


def once(key: Hashable, make: Callable[[], Value]) -> Value:
    """Returns `make()`; inside `use_memo`, the result of the first call with this key."""
    memory = _memory.get()
    if memory is None:
        return make()
    if key not in memory:
        memory[key] = make()
    return memory[key]
