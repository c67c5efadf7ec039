"""Free the memory of a run: a module, its functions and its tensors form reference cycles, which Python frees late."""

from __future__ import annotations

import gc
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MUCH = 1 << 28  # limit for the bytes that a run may leave; a garbage collection takes a tenth of a second
_PAGES = Path("/proc/self/statm")


@contextmanager
def memory_given_back() -> Iterator[None]:
    """Collect garbage after the block if it left much memory."""
    before = resident_bytes()
    try:
        yield
    finally:
        if resident_bytes() - before >= MUCH:
            gc.collect()


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes, or 0 if the system does not provide it (only Linux does)."""
    try:
        return int(_PAGES.read_text().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0
