"""Seed the global state of a process before a run and restore it afterwards: generators, modes, arguments, directory, streams."""

from __future__ import annotations

import contextlib
import io
import os
import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from autograder.tape.run.entropy import Readings, same_entropy, shift

SEED = 0


class Printed(NamedTuple):
    """The output of a program so far."""

    output: io.StringIO
    errors: io.StringIO


@contextmanager
def closed_world(seeded: bool = True, readings: Readings | None = None) -> Iterator[Printed]:
    """Seed all generators and restore global state that a program may change: generators, modes, dtype, arguments, directory, streams.

    Yields the output of the block.

    Args:
        seeded: whether to seed the generators.
        readings: clock readings of earlier runs.
    """
    python, torch_state, numpy = random.getstate(), torch.get_rng_state(), sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy else None
    dtype, threads, device = torch.get_default_dtype(), torch.get_num_threads(), torch.get_default_device()
    anomaly, checks_nan = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    deterministic = torch.are_deterministic_algorithms_enabled()
    arguments, path, folder = sys.argv, list(sys.path), os.getcwd()
    if seeded:
        random.seed(seed := SEED + shift())
        # Without an accelerator, `torch.manual_seed` takes 1 ms, because it stores a callback with a traceback for each
        # device type.
        (torch.manual_seed if torch.accelerator.is_available() else torch.default_generator.manual_seed)(seed)
        if numpy:
            numpy.random.seed(seed)
    sys.argv = sys.argv[:1]
    entropy = same_entropy(SEED + shift(), {} if readings is None else readings) if seeded else contextlib.nullcontext()
    try:
        with (
            entropy,
            _silence() as printed,
            torch.inference_mode(False),
            torch.enable_grad(),
            warnings.catch_warnings(),
        ):
            yield printed
    finally:
        random.setstate(python)
        torch.set_rng_state(torch_state)
        if numpy:
            numpy.random.set_state(numpy_state)
        if torch.get_default_device() != device:
            torch.set_default_device(None if device.type == "cpu" else device)
        torch.set_default_dtype(dtype)
        torch.autograd.set_detect_anomaly(anomaly, checks_nan)
        if torch.are_deterministic_algorithms_enabled() != deterministic:
            torch.use_deterministic_algorithms(deterministic)  # imports the compiler, which takes a second
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        sys.argv, sys.path[:] = arguments, path
        os.chdir(folder)


@contextmanager
def _silence() -> Iterator[Printed]:
    """Capture the output of the block, yield it, and give the block an empty input."""
    stdin, sys.stdin = sys.stdin, io.StringIO("")
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()) as output,
            contextlib.redirect_stderr(io.StringIO()) as errors,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield Printed(output, errors)
    finally:
        sys.stdin = stdin
