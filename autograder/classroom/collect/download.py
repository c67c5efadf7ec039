"""The submissions in a platform's zip or folder, whose files are read one by one and never written under their own names."""

from __future__ import annotations

import contextlib
import datetime
import io
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from autograder.errors import InputError, printable
from autograder.grade.submission.submitted_files import UnreadableSubmission, plain_file


@dataclass(frozen=True)
class DownloadedSubmission:
    """One submission of one person, or of several who submitted together."""

    key: str  # the platform's name for the person in file names; the same in the next download of this assignment
    name: str  # the person's or group's name as far as the file names contain it; "" if they are anonymous
    # for each person, the known identifiers, such as {"canvas": "4711"} or {"email": "a@b.org"}; the kinds are those of
    # `Roster.find`, the most reliable first
    identities: tuple[dict[str, str], ...]
    files: dict[str, DownloadedFile]  # the files by the path that the student used
    # the time of submission, with a time zone; None if the download does not contain it
    handed_in: datetime.datetime | None = None
    # the platform's number of the submission, which grows with each later one; 0 if it has no numbers
    sequence: int = 0
    late: bool = False  # whether the platform marks the submission as late
    # the beginning of a file name that the platform maps back to this person; "" if it does not map names
    upload_name: str = ""


MOST_FILES = 200_000  # in a class's download; 5,000 students submit a few files each
LARGEST_FILE = 256 * 2**20
NESTED = 2  # depth of zips inside zips, counted from a student's own
UTF8_NAME = 0x800  # the flag for UTF-8 names (PKWARE APPNOTE 4.4.4)
NOISE = ("__MACOSX", ".ipynb_checkpoints", "__pycache__")


class DownloadError(InputError):
    """A download, or a file in it, cannot be read; the message gives the reason."""


@dataclass(frozen=True)
class DownloadedFile:
    """A file in a platform's download, whose contents are read when they are needed."""

    path: str  # the path inside the download, with `/` between folders; never absolute, never with `..`
    # takes a maximum number of bytes and returns the contents; raises DownloadError if the file is larger or damaged
    read: Callable[[int], bytes]


@dataclass(frozen=True)
class Download:
    """All readable files, and a note for each file that was left out."""

    files: list[DownloadedFile]
    notes: list[str]


@contextlib.contextmanager
def open_download(path: Path) -> Iterator[Download]:
    """Yield the files of a zip or a folder. Raise DownloadError if it is neither, or has more files than any class submits."""
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
    """Return the files inside a zip of at most `budget` bytes that a student submitted, and inside zips in it."""
    download = Download([], [])
    _unpack(file, budget, NESTED, download)
    return download


def is_archive(path: str) -> bool:
    """Return whether a file's name ends in .zip."""
    return path.casefold().endswith(".zip")


def _unpack(file: DownloadedFile, budget: int, depth: int, download: Download) -> None:
    try:
        inside = _listed(_in_zip(_opened(file, budget)), 2 * MOST_FILES // 100)
    except DownloadError as error:
        download.notes.append(f"{printable(file.path)} was left out: {error}")
        return
    download.notes.extend(inside.notes)
    for packed in inside.files:
        if is_archive(packed.path) and depth > 1:
            _unpack(packed, budget, depth - 1, download)
        else:
            download.files.append(packed)


@lru_cache(maxsize=NESTED)  # Each file of a zip is read separately; the cache avoids opening the zip for each.
def _opened(file: DownloadedFile, budget: int) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(io.BytesIO(file.read(budget)))
    except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
        raise DownloadError(f"it cannot be read as a zip ({error})") from None


def _listed(entries: Iterator[tuple[str, Callable[[int], bytes] | str]], most: int = MOST_FILES) -> Download:
    """Return the files among the entries; each entry has a path and either a reader or the reason why it is left out."""
    download = Download([], [])
    for number, (name, reader) in enumerate(entries):
        if number >= most:
            raise DownloadError(f"it contains more than {most:,} files")
        path = safe_path(name)
        if path is None:
            download.notes.append(f"{printable(name)} was left out: its path is outside the archive")
        elif isinstance(reader, str):
            download.notes.append(f"{printable(path)} was left out: {reader}")
        elif not _is_noise(path):
            download.files.append(DownloadedFile(path, reader))
    return download


def safe_path(name: str) -> str | None:
    """Return the path with `/` between folders; None if it is absolute, names a drive or contains `..`."""
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
    """Return the entry's name. Python decodes names without the flag as CP437 (3.11), but most programs write UTF-8."""
    if info.flag_bits & UTF8_NAME:
        return info.filename
    with contextlib.suppress(UnicodeError):
        return info.filename.encode("cp437").decode("utf-8")
    return info.filename


def _inflated(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes:
    # The sizes in a zip's headers come from the sender; only the decompressed bytes count.
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
