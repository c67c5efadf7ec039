"""A copy of the working folder in which a program may write: each run finds there what the first one found."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autograder.locale.translations import in_english

MOST_FILES = 5_000  # a folder with more is not copied
LARGE, MOST_BYTES = (
    32 << 20,
    256 << 20,
)  # a file with more bytes, and what exceeds so many together, is a link to the file itself
TOO_MANY = in_english(
    "The working folder holds more than {count} files, so it was not copied: where the program writes files, each run wrote "
    "them there. Start in a smaller folder.", count=f"{MOST_FILES:,}",
)  # fmt: skip

Look = tuple[int, int, int]
"""A file's kind, size and time of its last change; of folders and links the kind alone."""


@dataclass
class ScratchFolder:
    """A copy of one folder, with links to what lies beside it and beside its parents, so that `..` leads where it did.

    Hidden folders and virtual environments in it are links, too.

    Attributes:
        root: an empty folder; in it the copy has the path that the original has from `/`.
        original: the folder that is copied.
        is_copied: whether there is a copy; there is none of a folder with too many files, nor on Windows.
    """

    root: str
    original: str = field(default_factory=os.getcwd)
    is_copied: bool = os.name == "posix"
    _looks: dict[str, Look] = field(default_factory=dict)
    _linked: dict[str, Look] = field(default_factory=dict)
    _bytes: int = 0

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """A block in which the working folder is the copy, as it was made."""
        if self.is_copied and not self._looks:
            self.is_copied = self._count() <= MOST_FILES
        if self.is_copied:
            self._restore()
            os.chdir(self.root + self.original)
        try:
            yield
        finally:
            os.chdir(self.original)

    def notes(self) -> Iterator[str]:
        """Yields what the program may have changed in the folder itself, as sentences."""
        if not self.is_copied and os.name == "posix":
            yield TOO_MANY
        for path, before in self._linked.items():
            if look_at(path) != before:
                yield in_english(
                    "{file} is too large to be copied, so each run wrote into the file itself.",
                    file=os.path.relpath(path, self.original),
                )

    def _count(self) -> int:
        count = 0
        for _, folders, files in self._walk():
            count += len(folders) + len(files)
            if count > MOST_FILES:
                break
        return count

    def _walk(self) -> Iterator[tuple[str, list[str], list[str]]]:
        """Yields each folder of the original with its folders and files; what is to be a link counts as a file."""
        for folder, folders, files in os.walk(self.original):
            linked = {name for name in folders if self._is_left_out(Path(folder, name))}
            folders[:] = [name for name in folders if name not in linked]
            yield folder, folders, [*files, *linked]

    def _is_left_out(self, folder: Path) -> bool:
        special = folder.name.startswith(".") or (folder / "pyvenv.cfg").exists() or str(folder) == self.root
        return special or folder.is_symlink()

    def _restore(self) -> None:
        """Takes away what a run has made or changed, and makes what is not there."""
        for folder, folders, files in os.walk(self.root, topdown=False):
            for path in (os.path.join(folder, name) for name in (*files, *folders)):
                if self._looks.get(path) != look_at(path):
                    remove(path)
        for parent in reversed(Path(self.original).parents):
            self._make_folder(str(parent))
            for beside in os.scandir(parent):
                self._make_link(beside.path)
        for folder, _, files in self._walk():
            self._make_folder(folder)
            for name in files:
                self._make_file(os.path.join(folder, name))

    def _make_folder(self, path: str) -> None:
        made = self.root + path
        if path != "/" and not os.path.isdir(made):
            os.mkdir(made)
            self._looks[made] = look_at(made)

    def _make_link(self, path: str) -> None:
        made = self.root + path
        on_the_way = os.path.commonpath([path, self.original]) == path
        if not on_the_way and not os.path.lexists(made):
            os.symlink(path, made)
            self._looks[made] = look_at(made)

    def _make_file(self, path: str) -> None:
        made = self.root + path
        if os.path.lexists(made):
            return
        kind, size, _ = look = look_at(path)
        if stat.S_ISREG(kind) and size <= LARGE and self._bytes + size <= MOST_BYTES:
            shutil.copy2(path, made)
            self._bytes += 0 if made in self._looks else size
        else:
            os.symlink(path, made)
            if stat.S_ISREG(kind):
                self._linked.setdefault(path, look)
        self._looks[made] = look_at(made)


def look_at(path: str) -> Look:
    """Returns by what a changed file is known; of one that is not there, zeros."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return 0, 0, 0
    kind = stat.S_IFMT(found.st_mode)
    return (kind, found.st_size, found.st_mtime_ns) if stat.S_ISREG(kind) else (kind, 0, 0)


def remove(path: str) -> None:
    """Removes a file, a link or an empty folder."""
    if os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)
    else:
        os.unlink(path)
