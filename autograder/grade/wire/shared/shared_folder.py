"""A folder on each side whose files follow each other: what a test writes, the learner's code can read, and the other way round."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

LARGEST_FILE = 16 << 20  # bytes
LARGEST_TOGETHER = 32 << 20  # bytes of one message
LARGEST_FOLDER = 128 << 20  # bytes of all files of the other side's that lie here
MOST_FILES = 100
MOST_FILES_HERE = 1000
OF_PYTHON = (".py", ".pyc", ".pyd", ".so", ".pth")  # what an import would run


class SharedFolder:
    """One side's folder.

    Args:
        path: the folder; None shares no files.
        kept: names that the other side may not write, such as the teacher's data files.
    """

    def __init__(self, path: Path | None, kept: frozenset[str] = frozenset()) -> None:
        self._path, self._kept = path, kept
        self._seen = self._stamps()
        self._sizes: dict[str, int] = {}  # of the files that the other side has written

    @property
    def is_shared(self) -> bool:
        """Whether there is a folder."""
        return self._path is not None

    def changed(self) -> dict[str, bytes | None]:
        """Returns the files that were written here since the last time, by name, and None for each that is gone.

        Only plain files of the folder itself.
        """
        now = self._stamps()
        changed, room = [], LARGEST_TOGETHER
        for name, stamp in now.items():
            if self._seen.get(name) != stamp and stamp[1] <= LARGEST_FILE and stamp[1] <= room:
                changed.append(name)
                room -= stamp[1]
        gone = [name for name in self._seen if name not in now]
        self._seen = now
        written = {name: data for name in changed[:MOST_FILES] if (data := self._read(name)) is not None}
        return written | dict.fromkeys(gone[:MOST_FILES])

    def write(self, files: dict[str, bytes | None]) -> None:
        """Writes and deletes as the other side did; names with a folder, names that Python imports, and kept files are left out."""
        if self._path is None:
            return
        for name, data in list(files.items())[: 2 * MOST_FILES]:
            if self._may_write(name) and (data is None or self._has_room(name, len(data))):
                with contextlib.suppress(OSError):
                    self._put(self._path / name, data)

    def _put(self, target: Path, data: bytes | None) -> None:
        target.unlink(missing_ok=True)  # it may be a link to somewhere else
        if data is None:
            self._seen.pop(target.name, None)
            self._sizes.pop(target.name, None)
            return
        target.write_bytes(data)
        status = target.stat()
        self._seen[target.name] = (status.st_mtime_ns, status.st_size)

    def _may_write(self, name: str) -> bool:
        plain = name not in ("", ".", "..") and not set("/\\\0") & set(name)
        return plain and name not in self._kept and not name.lower().endswith(OF_PYTHON)

    def _has_room(self, name: str, size: int) -> bool:
        others = [held for other, held in self._sizes.items() if other != name]
        fits = size <= LARGEST_FILE and size + sum(others) <= LARGEST_FOLDER and len(others) < MOST_FILES_HERE
        self._sizes |= {name: size} if fits else {}
        return fits

    def _read(self, name: str) -> bytes | None:
        assert self._path is not None
        with contextlib.suppress(OSError):
            return (self._path / name).read_bytes()
        return None

    def _stamps(self) -> dict[str, tuple[int, int]]:
        """Returns when each file was written, in nanoseconds, and its size."""
        found: dict[str, tuple[int, int]] = {}
        with contextlib.suppress(OSError), os.scandir(self._path or os.devnull) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False) and _is_text(entry.name):
                    status = entry.stat(follow_symlinks=False)
                    found[entry.name] = status.st_mtime_ns, status.st_size
        return found


def _is_text(name: str) -> bool:
    """Returns whether a file's name is UTF-8; Linux takes any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
