"""Files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Write a file atomically: a reader sees the old contents or the new ones."""
    replace_files({path: data})


def replace_files(files: Mapping[Path, bytes]) -> None:
    """Write files that belong together; if an error occurs, all of them keep their old contents."""
    fresh = {path: path.with_name(f".{path.name}.writing") for path in files}
    try:
        for path, data in files.items():
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh[path].write_bytes(data)
        for path, written in fresh.items():
            os.replace(written, path)
    except OSError:
        for written in fresh.values():
            _remove(written)
        raise


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
