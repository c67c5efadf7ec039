"""Settings of a test's that hold for the learner's code while it runs: NumPy's errors, gradients on or off, PyTorch's default dtype."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy
import torch


def settings() -> dict[str, Any]:
    """Returns the settings in force, as data."""
    return {
        "errors": numpy.geterr(),
        "gradients": torch.is_grad_enabled(),
        "dtype": torch.get_default_dtype(),
    }


def changed_settings(before: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings that are others now."""
    return {name: value for name, value in settings().items() if value != before[name]}


@contextlib.contextmanager
def settings_in_force(changed: dict[str, Any]) -> Iterator[None]:
    """A block with these settings; those that are not named stay, also where the block changes them."""
    dtype = torch.get_default_dtype()
    with contextlib.ExitStack() as stack:
        if "errors" in changed:
            stack.enter_context(numpy.errstate(**changed["errors"]))
        if "gradients" in changed:
            stack.enter_context(torch.set_grad_enabled(changed["gradients"]))
        if "dtype" in changed:
            stack.callback(torch.set_default_dtype, dtype)
            torch.set_default_dtype(changed["dtype"])
        yield
