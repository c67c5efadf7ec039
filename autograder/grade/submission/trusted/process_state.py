"""Global state of the trusted process that a teacher's cell may set: the same for every submission at its beginning."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def restored_state() -> Iterator[None]:
    """A block after which the environment, warnings, and the settings of PyTorch, NumPy and matplotlib are as before."""
    environment = dict(os.environ)
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    with warnings.catch_warnings(), _numpy_settings(), _matplotlib_settings():
        try:
            yield
        finally:
            if environment != os.environ:
                os.environ.clear()
                os.environ.update(environment)


def seed_all(seed: int) -> None:
    """Seeds Python's, NumPy's and PyTorch's generators."""
    random.seed(seed)
    torch.default_generator.manual_seed(seed & (2**63 - 1))
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed % 2**32)


def random_state() -> tuple[Any, ...]:
    """Returns the state of these generators, to be compared with another one."""
    numpy = sys.modules.get("numpy")
    words = numpy.random.get_state() if numpy else ()
    own = tuple(word.tobytes() if hasattr(word, "tobytes") else word for word in words)
    return random.getstate(), torch.default_generator.get_state().numpy().tobytes(), own


@contextlib.contextmanager
def _numpy_settings() -> Iterator[None]:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        yield
        return
    with numpy.errstate(), numpy.printoptions():
        yield


@contextlib.contextmanager
def _matplotlib_settings() -> Iterator[None]:
    matplotlib = sys.modules.get("matplotlib")
    before = matplotlib.rcParams.copy() if matplotlib else None
    try:
        yield
    finally:
        now = sys.modules.get("matplotlib")
        if now and before is None:
            now.rc_file_defaults()  # it was imported inside the block
        elif now and now.rcParams != before:
            now.rcParams.update(before)
        if pyplot := sys.modules.get("matplotlib.pyplot"):
            pyplot.close("all")
