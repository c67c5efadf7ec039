"""The states of the random generators of Python, NumPy and PyTorch."""

from __future__ import annotations

import random
import sys
from typing import Any


def random_states() -> list[Any]:
    """Returns the generators' states as data, None for a library that is not imported."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    return [
        random.getstate(),
        numpy and numpy.random.get_state(),
        torch and torch.get_rng_state(),
    ]


def set_random_states(states: list[Any]) -> None:
    """Sets the generators to these states; an empty list leaves them as they are."""
    if not states:
        return
    ours, numpys, torchs = states
    random.setstate(ours)
    if numpys is not None:
        import numpy

        numpy.random.set_state(numpys)
    if torchs is not None:
        import torch

        torch.set_rng_state(torchs)


def draw() -> None:
    """Draws a number from each generator, so that setting the same seed again can be noticed."""
    random.random()
    if numpy := sys.modules.get("numpy"):
        numpy.random.random()
    if torch := sys.modules.get("torch"):
        torch.rand(1)
