"""A platform's zip file, or a folder: its files by their paths, read one by one and never written by their own names."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from autograder.errors import InputError
from autograder.grade.submission.submitted_files import UnreadableSubmission, plain_file
from autograder.printable import printable

MOST_FILES = 200_000  # in a class's download; 5,000 students hand in a few files each
LARGEST_FILE = 256 * 2**20
NESTED = 2  # zips inside zips, counted from a student's own
UTF8_NAME = 0x800  # the flag that says so (PKWARE APPNOTE 4.4.4)
NOISE = ("__MACOSX", ".ipynb_checkpoints", "__pycache__")


class DownloadError(InputError):
    """What was downloaded cannot be read, or one file in it; the message is the reason."""


class DownloadedFile(NamedTuple):
    """One file of a download.

    Attributes:
        path: inside the download, with `/` between folders; never absolute, never with `..`.
        read: returns the bytes, at most as many as given; raises DownloadError where there are more, or the file is damaged.
    """

    path: str
    read: Callable[[int], bytes]


class Download(NamedTuple):
    """All files that can be read, and a note for each that was left out."""

    files: list[DownloadedFile]
    notes: list[str]


@contextlib.contextmanager
def open_download(path: Path) -> Iterator[Download]:
    """Yields the files of a zip or a folder.

    Raises:
        DownloadError: there is no such file, it is no zip, or it holds more files than any class hands in.
    """
    if path.is_dir():
        yield _listed(_in_folder(path))
        return
    try:
        archive = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise DownloadError(
            f"there is no file {printable(str(path))}. Name the zip or the folder that you downloaded"
        ) from None
    except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DownloadError(f"{printable(path.name)} cannot be read as a zip ({reason}). Download it again") from None
    with archive:
        yield _listed(_in_zip(archive))


def unpacked(file: DownloadedFile, budget: int) -> Download:
    """Returns the files inside a zip that a student handed in, and inside zips in it.

    Args:
        file: the zip.
        budget: bytes that all of it may have, packed and unpacked.
    """
    found = Download([], [])
    _unpack(file, budget, NESTED, found)
    return found


def is_archive(path: str) -> bool:
    """Returns whether a file's name says that it is a zip."""
    return path.casefold().endswith(".zip")


def _unpack(file: DownloadedFile, budget: int, depth: int, found: Download) -> None:
    try:
        inside = _listed(_in_zip(_opened(file, budget)), 2 * MOST_FILES // 100)
    except DownloadError as error:
        found.notes.append(f"{printable(file.path)} was left out: {error}")
        return
    found.notes.extend(inside.notes)
    for one in inside.files:
        if is_archive(one.path) and depth > 1:
            _unpack(one, budget, depth - 1, found)
        else:
            found.files.append(one)


@lru_cache(maxsize=NESTED)  # each file of a zip is read by itself; the zip should not be unpacked for each
def _opened(file: DownloadedFile, budget: int) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(io.BytesIO(file.read(budget)))
    except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
        raise DownloadError(f"it cannot be read as a zip ({error})") from None


def _listed(entries: Iterator[tuple[str, Callable[[int], bytes] | str]], most: int = MOST_FILES) -> Download:
    """Returns the files among what was found: a path, and how to read it or why it is left out."""
    download = Download([], [])
    for number, (name, reader) in enumerate(entries):
        if number >= most:
            raise DownloadError(f"it holds more than {most:,} files")
        path = safe_path(name)
        if path is None:
            download.notes.append(f"{printable(name)} was left out: its name leads out of the archive")
        elif isinstance(reader, str):
            download.notes.append(f"{printable(path)} was left out: {reader}")
        elif not _is_noise(path):
            download.files.append(DownloadedFile(path, reader))
    return download


def safe_path(name: str) -> str | None:
    """Returns the path with `/` between folders; None if it is absolute, names a drive or goes upwards."""
    parts = name.replace("\\", "/").split("/")
    if not parts[0] or parts[0].endswith(":") or ".." in parts or "\0" in name:
        return None
    return "/".join(part for part in parts if part not in ("", ".")) or None


def _is_noise(path: str) -> bool:
    parts = path.split("/")
    return (
        any(part in NOISE for part in parts)
        or parts[-1] in (".DS_Store", "Thumbs.db", "desktop.ini")
        or parts[-1].startswith("._")
    )


def _in_zip(archive: zipfile.ZipFile) -> Iterator[tuple[str, Callable[[int], bytes] | str]]:
    for info in archive.infolist():
        if info.is_dir():
            continue
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            yield _name(info), "it is a link or a device, not a file"
        elif info.flag_bits & 1:
            yield _name(info), "it is encrypted"
        else:
            yield _name(info), lambda most, info=info: _inflated(archive, info, most)  # type: ignore[misc]


def _name(info: zipfile.ZipInfo) -> str:
    """Returns the entry's name. Python takes names without a flag for CP437 (3.11); most programs write UTF-8."""
    if info.flag_bits & UTF8_NAME:
        return info.filename
    with contextlib.suppress(UnicodeError):
        return info.filename.encode("cp437").decode("utf-8")
    return info.filename


def _inflated(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes:
    # The sizes that a zip tells are the packer's; only what comes out is counted.
    most = min(most, LARGEST_FILE)
    try:
        with archive.open(info) as file:
            data = file.read(most + 1)
    except (OSError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise DownloadError(f"it is damaged ({error})") from None
    if len(data) > most:
        raise DownloadError(f"it has more than {most / 2**20:g} MiB")
    return data


def _in_folder(folder: Path) -> Iterator[tuple[str, Callable[[int], bytes] | str]]:
    for here, _, names in os.walk(folder):  # does not follow links
        for name in sorted(names):
            path = Path(here, name)
            relative = path.relative_to(folder).as_posix()
            yield relative, "it is a link" if path.is_symlink() else lambda most, path=path: _plain(path, most)  # type: ignore[misc]


def _plain(path: Path, most: int) -> bytes:
    try:
        return plain_file(path, min(most, LARGEST_FILE))
    except (OSError, UnreadableSubmission) as error:
        raise DownloadError(str(getattr(error, "strerror", None) or error)) from None
