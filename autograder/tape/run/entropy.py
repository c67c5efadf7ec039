"""Make a program's random numbers, seeds and clock readings equal in each run, and restore the global state of the process."""

from __future__ import annotations

import datetime
import io
import multiprocessing
import os
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stderr, redirect_stdout
from functools import partial
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from typing import Any
from unittest.mock import patch

import torch
from torch import __future__ as future
from torch.overrides import TorchFunctionMode

from autograder.tape.internals.entry_points import without_new_operators
from autograder.tape.run.programs.source_text import is_own_file

Readings = dict[tuple[str, str, str], list[Any]]
"""Readings of each clock in the first run, by name of the clock, file and function of the caller.

Later runs reuse them.
"""
Captured = tuple[io.StringIO, io.StringIO]
"""The output of a program so far, and its error output."""

CLOCKS = ("time", "time_ns", "perf_counter", "perf_counter_ns")
CALENDARS = {datetime.datetime: ("now", "utcnow", "today"), datetime.date: ("today",)}
# Maximum number of stored readings per clock and function, because a loop that waits may read it millions of times.
READINGS = 10_000
_seed = random.Random.seed
_MAKERS = {"tensor", "ones", "zeros", "full", "arange", "linspace", "eye", "ones_like", "zeros_like", "requires_grad_"}
_shift = 0


@contextmanager
def other_random_numbers() -> Iterator[None]:
    """Shift all seeds in the block, those that a program sets included, and replace the values of new leaves."""
    global _shift
    before, _shift = _shift, 12_345
    try:
        yield
    finally:
        _shift = before


class OtherLeaves(TorchFunctionMode):
    """A function mode that adds random numbers to each leaf that a function returns with `requires_grad`."""

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        is_leaf = type(result) is torch.Tensor and result.requires_grad and result.is_leaf
        if is_leaf and func.__name__ in _MAKERS and result.is_floating_point() and result.layout == torch.strided:
            result.data.add_(torch.randn_like(result) * (1 + result.detach().abs()))
        return result


@contextmanager
def same_entropy(seed: int, readings: Readings) -> Iterator[None]:
    """Make unseeded generators, `os.urandom`, clocks and dates return the same values in the block as in the first run.

    `random.SystemRandom`, `secrets`, `uuid.uuid4` and NumPy's `default_rng()` use `os.urandom`. `torch.Generator.seed`
    does not and is not covered. Each function draws from its own sequence, because a library that is imported in the
    first run only also draws some.
    """
    sources: dict[str, random.Random] = {}

    def source() -> random.Random:
        frame = sys._getframe(2)
        while frame.f_back and frame.f_globals.get("__name__") in ("random", "secrets", "uuid"):
            frame = frame.f_back
        caller = f"{seed} {frame.f_globals.get('__name__')} {frame.f_code.co_name}"
        return sources.get(caller) or sources.setdefault(caller, random.Random(caller))

    def random_bytes(size: int) -> bytes:
        return source().randbytes(size)

    def seeded(generator: random.Random, a: Any = None, version: int = 2) -> None:
        _seed(generator, source().getrandbits(64) if a is None else a + _shift if isinstance(a, int) else a, version)

    def seed_torch() -> int:
        torch.manual_seed(chosen := source().getrandbits(63))
        return chosen

    changed: list[tuple[Any, str, Callable[..., Any]]] = [
        (os, "urandom", random_bytes),
        (random, "_urandom", random_bytes),
        (random.Random, "seed", seeded),
        (random, "seed", lambda a=None, version=2: seeded(random._inst, a, version)),  # type: ignore[attr-defined]
        (torch, "seed", seed_torch),
        (torch.random, "seed", seed_torch),
    ]
    numpy = sys.modules.get("numpy")
    seeders = [(torch, "manual_seed"), (torch.random, "manual_seed")]
    seeders += [(numpy.random, "seed"), (numpy.random, "default_rng")] if numpy else []
    changed += [(holder, name, _shifted(getattr(holder, name))) for holder, name in seeders if _shift]
    changed += [(time, clock, _clock(getattr(time, clock), readings)) for clock in CLOCKS]
    changed += [(datetime, calendar.__name__, _calendar(calendar, readings)) for calendar in CALENDARS]
    changed += [(ExtensionFileLoader, name, _with_dates(name)) for name in ("create_module", "exec_module")]
    changed.append((SourceFileLoader, "exec_module", _without_draws()))
    with ExitStack() as put_back, OtherLeaves() if _shift else nullcontext():
        for holder, name, function in changed:
            put_back.enter_context(patch.object(holder, name, function))
        yield


def _with_dates(name: str) -> Callable[..., Any]:
    """Return a loader's method that imports an extension module with the original date classes.

    C code that extends them (pandas 3.1) relies on their size, and ends the process with a segmentation fault otherwise.
    """
    load = getattr(ExtensionFileLoader, name)

    def loaded(loader: ExtensionFileLoader, module: Any) -> Any:
        originals: dict[str, Any] = {calendar.__name__: calendar for calendar in CALENDARS}
        with patch.multiple(datetime, **originals):
            return load(loader, module)

    return loaded


def _without_draws() -> Callable[..., Any]:
    """Return a loader's method after which the global generators are as before, if it imports a library.

    Later runs find the library imported, so they would not draw what it draws during its import (rich 15.0).
    """
    execute, is_inside = SourceFileLoader.exec_module, False

    def executed(loader: SourceFileLoader, module: Any) -> None:
        nonlocal is_inside
        if is_inside or is_own_file(loader.path):
            return execute(loader, module)
        is_inside = True
        try:
            with _same_generators():
                execute(loader, module)
        finally:
            is_inside = False

    return executed


def generator_states() -> list[Callable[[], object]]:
    """Return functions that put the global generators back to their present states."""
    states: list[tuple[Callable[[Any], object], Any]] = [(random.setstate, random.getstate())]
    states.append((torch.set_rng_state, torch.get_rng_state()))
    if numpy := sys.modules.get("numpy"):
        states.append((numpy.random.set_state, numpy.random.get_state()))
    return [partial(restore, state) for restore, state in states]


@contextmanager
def _same_generators() -> Iterator[None]:
    """Put the global generators back to their states before the block."""
    states = generator_states()
    try:
        yield
    finally:
        for restore in states:
            restore()


def _shifted(seed: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that seeds with another number."""
    return lambda *given: seed(*(value + _shift if isinstance(value, int) else value for value in given))


def _clock(read: Callable[[], Any], readings: Readings) -> Callable[[], Any]:
    """Return a clock that repeats the readings of the first run, and continues with `read` after the last one."""
    asked: dict[tuple[str, str, str], int] = {}

    def repeated(*args: Any, **kwargs: Any) -> Any:
        code = sys._getframe(1).f_code
        key = (read.__name__, code.co_filename, code.co_name)
        earlier, number = readings.setdefault(key, []), asked.get(key, 0)
        asked[key] = number + 1
        if number < len(earlier):
            return earlier[number]
        reading = read(*args, **kwargs)
        if number < READINGS:
            earlier.append(reading)
        return reading

    return repeated


class _Calendar(type):
    """The metaclass of a replaced date class, so that objects of the original class, for example from C code, are instances of it."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.__base__) if cls.__base__ in CALENDARS else super().__instancecheck__(instance)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.__base__) if cls.__base__ in CALENDARS else super().__subclasscheck__(other)


def _calendar(kind: type[datetime.date], readings: Readings) -> type:
    """Return a subclass of a date class with repeated clock readings, because attributes of these types cannot be replaced."""
    clocks = {name: staticmethod(_clock(getattr(kind, name), readings)) for name in CALENDARS[kind]}
    return _Calendar(kind.__name__, (kind,), {"__module__": kind.__module__, "__slots__": (), **clocks})


SEED = 0


def _default_device() -> torch.device:
    # `torch.get_default_device` raises an AttributeError after `set_default_device(None)` (2.6).
    return torch.empty(0).device


def _anomaly_modes() -> tuple[bool, bool]:
    return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()


def _has_stored_parameters() -> bool:
    """Return whether Pyro's global store contains parameters, which `pyro.param` reuses (pyro-ppl 1.9, pyro/params)."""
    stored: Callable[[], Any] = getattr(sys.modules.get("pyro"), "get_param_store", dict)
    return len(stored()) > 0


def _keep_stored_parameters(is_kept: bool) -> None:
    clear: Callable[[], object] = getattr(sys.modules.get("pyro"), "clear_param_store", dict)
    if not is_kept:
        clear()


SETTINGS: tuple[tuple[Callable[[], Any], Callable[..., object]], ...] = (
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (future.get_swap_module_params_on_conversion, future.set_swap_module_params_on_conversion),
    (future.get_overwrite_module_params_on_conversion, future.set_overwrite_module_params_on_conversion),
    (partial(multiprocessing.get_start_method, allow_none=True), partial(multiprocessing.set_start_method, force=True)),
    (_has_stored_parameters, _keep_stored_parameters),
    (_default_device, lambda device: torch.set_default_device(None if device.type == "cpu" else device)),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    (_anomaly_modes, lambda modes: torch.autograd.set_detect_anomaly(*modes)),
)
"""Global settings, read and written by one function each: a run that is ended early does not put them back.

Only a changed one is written: for deterministic algorithms, PyTorch imports the compiler, which takes a second.
"""


@contextmanager
def isolated_globals(seeded: bool, readings: Readings) -> Iterator[Captured]:
    """Restore global state that a program may change, and yield the output of the block.

    That is: generators (which are seeded before, if `seeded`), modes, dtype, arguments, directory, streams. `readings` are
    the clock readings of earlier runs.
    """
    settings = [read() for read, _ in SETTINGS]
    arguments, path, folder = sys.argv, list(sys.path), os.getcwd()
    sys.argv = sys.argv[:1]
    entropy = same_entropy(SEED + _shift, readings) if seeded else nullcontext()
    try:
        with _same_generators():
            if seeded:
                _seed_generators(SEED + _shift)
            with (
                entropy,
                _captured_output() as printed,
                torch.inference_mode(False),
                torch.enable_grad(),
                without_new_operators(is_own_file),
                # PyTorch accepts it once per process, and only before parallel work.
                patch.object(torch, "set_num_interop_threads", int),
            ):
                yield printed
    finally:
        for (read, write), value in zip(SETTINGS, settings, strict=True):
            if read() != value:
                write(value)
        sys.argv, sys.path[:] = arguments, path
        os.chdir(folder)


def _seed_generators(seed: int) -> None:
    random.seed(seed)
    # Without an accelerator, `torch.manual_seed` takes 1 ms, because it stores a callback with a traceback for each
    # device type.
    (torch.manual_seed if torch.accelerator.is_available() else torch.default_generator.manual_seed)(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed)


@contextmanager
def _captured_output() -> Iterator[Captured]:
    """Capture the output of the block, yield it, and give the block an empty input."""
    with (
        redirect_stdout(io.StringIO()) as output,
        redirect_stderr(io.StringIO()) as errors,
        patch.object(sys, "stdin", io.StringIO("")),
        warnings.catch_warnings(action="ignore"),
    ):
        yield output, errors
