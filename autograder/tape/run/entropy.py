"""What the system gives a program that did not ask for a seed: random bytes, seeds and the time of day, the same in each run."""

from __future__ import annotations

import datetime
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch

Readings = dict[tuple[str, str, str], list[Any]]
"""What each clock said in the first run, by its name and the file and function that asked; later runs read the same."""

CLOCKS = ("time", "time_ns", "perf_counter", "perf_counter_ns")
CALENDARS = {datetime.datetime: ("now", "utcnow", "today"), datetime.date: ("today",)}
READINGS = 10_000  # of one clock in one function that are kept: a loop that waits may ask millions of times
_seed = random.Random.seed


@contextmanager
def same_entropy(seed: int, readings: Readings) -> Iterator[None]:
    """A block in which a generator without a seed, `os.urandom`, the clocks and the calendar give what they gave in the first run.

    `random.SystemRandom`, `secrets`, `uuid.uuid4` and NumPy's `default_rng()` draw from `os.urandom`. Not so `torch.Generator.seed`,
    which asks the system by itself.
    """
    source = random.Random(seed)

    def seeded(generator: random.Random, a: Any = None, version: int = 2) -> None:
        _seed(generator, source.getrandbits(64) if a is None else a, version)

    def seed_torch() -> int:
        torch.manual_seed(chosen := source.getrandbits(63))
        return chosen

    changed: list[tuple[Any, str, Callable[..., Any]]] = [
        (os, "urandom", source.randbytes),
        (random, "_urandom", source.randbytes),
        (random.Random, "seed", seeded),
        (random, "seed", lambda a=None, version=2: seeded(random._inst, a, version)),  # type: ignore[attr-defined]
        (torch, "seed", seed_torch),
        (torch.random, "seed", seed_torch),
    ]
    changed += [(time, clock, _clock(getattr(time, clock), readings)) for clock in CLOCKS]
    changed += [(datetime, calendar.__name__, _calendar(calendar, readings)) for calendar in CALENDARS]
    with ExitStack() as put_back:
        for holder, name, function in changed:
            put_back.enter_context(patch.object(holder, name, function))
        yield


def _clock(read: Callable[[], Any], readings: Readings) -> Callable[[], Any]:
    """Returns a clock that says in each run what `read` said in the first, and goes on from there."""
    asked: dict[tuple[str, str, str], int] = {}

    def told(*args: Any, **kwargs: Any) -> Any:
        code = sys._getframe(1).f_code
        key = (read.__name__, code.co_filename, code.co_name)
        known, number = readings.setdefault(key, []), asked.get(key, 0)
        asked[key] = number + 1
        if number < len(known):
            return known[number]
        reading = read(*args, **kwargs)
        if number < READINGS:
            known.append(reading)
        return reading

    return told


class _Calendar(type):
    """The type of a stand-in: what its own class makes, C code among them, counts as made by it."""

    def __instancecheck__(cls, one: object) -> bool:
        return isinstance(one, cls.__base__) if cls.__base__ in CALENDARS else super().__instancecheck__(one)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.__base__) if cls.__base__ in CALENDARS else super().__subclasscheck__(other)


def _calendar(kind: type[datetime.date], readings: Readings) -> type:
    """Returns a stand-in for `datetime.datetime` or `datetime.date`, of which nothing can be replaced; its clock repeats."""
    clocks = {name: staticmethod(_clock(getattr(kind, name), readings)) for name in CALENDARS[kind]}
    return _Calendar(kind.__name__, (kind,), {"__module__": kind.__module__, "__slots__": (), **clocks})
