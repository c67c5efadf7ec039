"""What a run leaves in memory until Python looks for it: a module, its functions and its tensors hold each other."""

from __future__ import annotations

import gc
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MUCH = 1 << 28  # bytes that a run may leave; to look for them takes a tenth of a second
_PAGES = Path("/proc/self/statm")


@contextmanager
def memory_given_back() -> Iterator[None]:
    """What was used inside and is held by nobody is free again afterwards, where it is much."""
    before = resident_bytes()
    try:
        yield
    finally:
        if resident_bytes() - before >= MUCH:
            gc.collect()


def resident_bytes() -> int:
    """Returns how much memory this process has; 0 where the system does not tell, which only Linux does in this way."""
    try:
        return int(_PAGES.read_text().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0
