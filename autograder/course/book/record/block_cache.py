"""A cache of notebooks' blocks, recorded on all cores.

The key is a hash of the notebook, its language, the package and PyTorch.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import repeat
from pathlib import Path

import msgspec

from autograder.course.book.record.lesson_blocks import Block
from autograder.course.book.record.notebook_recorder import record_notebook
from autograder.course.file_replacement import replace_file
from autograder.locale.languages import language, speaking
from autograder.locale.translations import po_files
from autograder.requirements import PACKAGE

MOST_WORKERS = 4
"""The maximum number of processes that record at the same time, each with a few hundred MB."""

WARM = [__name__, "matplotlib_inline.backend_inline"]
"""Modules that take seconds to import, mainly PyTorch; they are imported once, in the process from which workers are forked."""


def blocks_of(notebooks: Sequence[Path], kept: Path | None) -> list[list[Block]]:
    """Return the blocks of each notebook, in the current language.

    Args:
        notebooks: the paths of the notebooks.
        kept: the folder of the cache, which is created if it is missing; None for no cache.

    Raises:
        NotebookError, RecordingFailedError: see `record_notebook`.
    """
    known = {path: _read(kept, path) for path in notebooks}
    # The largest first, so that no core waits for a long one at the end.
    missing = sorted((path for path, blocks in known.items() if blocks is None), key=_size, reverse=True)
    for path, encoded in zip(missing, _record_all(missing), strict=True):
        known[path] = encoded
        if kept is not None:
            replace_file(kept / f"{_key(path)}.blocks", encoded)
    return [msgspec.msgpack.decode(known[path] or b"", type=list[Block]) for path in notebooks]


def _record_all(notebooks: list[Path]) -> Iterator[bytes]:
    """Yield each notebook's blocks as soon as they are recorded, so that an interrupted run keeps them."""
    if not notebooks:
        return
    workers = min(len(notebooks), os.cpu_count() or 1, MOST_WORKERS)
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(WARM)
    # A new process for each notebook, so that global settings do not affect the next one.
    with ProcessPoolExecutor(workers, forks, max_tasks_per_child=1) as pool:
        yield from pool.map(_recorded, notebooks, repeat(language()))


def _recorded(notebook: Path, spoken: str) -> bytes:
    with speaking(spoken):
        return msgspec.msgpack.encode(record_notebook(notebook))


def _read(kept: Path | None, notebook: Path) -> bytes | None:
    file = kept / f"{_key(notebook)}.blocks" if kept is not None else None
    return file.read_bytes() if file is not None and file.is_file() else None


def _size(notebook: Path) -> int:
    return notebook.stat().st_size


def _key(notebook: Path) -> str:
    return hashlib.sha256(notebook.read_bytes() + _surroundings(language())).hexdigest()[:24]


@cache
def _surroundings(spoken: str) -> bytes:
    """Return a hash of the inputs of a recording other than the notebook."""
    whole = hashlib.sha256(f"{importlib.metadata.version('torch')} {spoken}".encode())
    for file in po_files(spoken):
        whole.update(file.read_bytes())
    for room in ("tape", "check", "course", "view", "locale"):
        for file in sorted((PACKAGE / room).rglob("*.*")):
            if file.suffix in (".json", ".py", ".toml"):
                whole.update(file.read_bytes())
    return whole.digest()
