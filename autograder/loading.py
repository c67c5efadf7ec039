"""Faster imports of large packages."""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Make imports inside the block about a sixth faster, by disabling garbage collection.

    The block also hides PyTorch's warning about a missing NumPy, which is optional (PyTorch 2.13).
    """
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Failed to initialize NumPy")
            yield
    finally:
        gc.freeze()
        gc.enable()


def import_without(missing: str, name: str, ready: str) -> None:
    """Import a module as if another were not installed, unless that one or `ready` is already imported."""
    if missing in sys.modules or ready in sys.modules:
        importlib.import_module(name)
        return
    sys.modules[missing] = None  # type: ignore[assignment]  # an import of it raises ImportError
    try:
        importlib.import_module(name)
    finally:
        del sys.modules[missing]
