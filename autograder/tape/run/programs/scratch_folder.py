"""A copy of the working directory for a program that writes files, so that each run finds the same files."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autograder.locale.translations import in_english

MOST_FILES = 5_000  # larger directories are not copied
# Limits in bytes for a copied file and for all copied files; the others are linked.
LARGE, MOST_BYTES = 32 << 20, 256 << 20
TOO_MANY = in_english(
    "The working folder contains more than {count} files, so it was not copied: if the program "
    "writes files, each run wrote them there. Start in a smaller folder.", count=f"{MOST_FILES:,}",
)  # fmt: skip

Look = tuple[int, int, int]
"""Type, size and modification time of a file, or only the type of a directory or link."""


@dataclass
class ScratchFolder:
    """A copy of a directory, with links to the siblings of it and of its parents, so that `..` works.

    Hidden directories and virtual environments are linked instead of copied.

    Attributes:
        root: an empty directory; the copy has the same path in it as the original has in `/`.
        original: the directory to copy.
        is_copied: whether there is a copy; False for directories with too many files, and on Windows.
    """

    root: str
    original: str = field(default_factory=os.getcwd)
    is_copied: bool = os.name == "posix"
    _looks: dict[str, Look] = field(default_factory=dict)
    _linked: dict[str, Look] = field(default_factory=dict)
    _bytes: int = 0

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Use the copy, in its original state, as the working directory in the block."""
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
        """Yield sentences on possible changes of the original directory by the program."""
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
        """Yield each directory of the original with its subdirectories and files. Entries to be linked count as files."""
        for folder, folders, files in os.walk(self.original):
            linked = {name for name in folders if self._is_left_out(Path(folder, name))}
            folders[:] = [name for name in folders if name not in linked]
            yield folder, folders, [*files, *linked]

    def _is_left_out(self, folder: Path) -> bool:
        special = folder.name.startswith(".") or (folder / "pyvenv.cfg").exists() or str(folder) == self.root
        return special or folder.is_symlink()

    def _restore(self) -> None:
        """Remove files that a run has created or changed, and create missing ones."""
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
    """Return the properties that show a change of a file, or zeros if it does not exist."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return 0, 0, 0
    kind = stat.S_IFMT(found.st_mode)
    return (kind, found.st_size, found.st_mtime_ns) if stat.S_ISREG(kind) else (kind, 0, 0)


def remove(path: str) -> None:
    """Remove a file, a link or an empty directory."""
    if os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)
    else:
        os.unlink(path)
