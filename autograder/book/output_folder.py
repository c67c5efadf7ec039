"""The output folder of a book: a new or empty folder, or an older book, which is replaced completely or not at all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from autograder.errors import InputError, UnfinishedError
from autograder.locale.translations import in_english
from autograder.printable import printable

MARK = "book.json"
"""The file that marks a folder as a book."""

SIGNED = json.dumps({"made by": "autograder book"})
"""The contents of this file; other programs use a `book.json` too."""


class BookFolderError(InputError):
    """The book cannot be written here; the message gives the reason."""


def require_place(folder: Path) -> None:
    """Check that a book can be written to a folder, before anything is recorded.

    Raises:
        BookFolderError: the folder contains files that are not a book, or cannot be written.
    """
    shown = printable(str(folder))
    try:
        if folder.exists() and not folder.is_dir():
            raise BookFolderError(
                in_english(
                    "{shown} is a file, but a book is written to a folder. Name a folder with --out.", shown=shown
                )
            )
        if folder.exists() and any(folder.iterdir()) and not _is_book(folder):
            raise BookFolderError(
                in_english(
                    "{shown} contains files that are not part of a book, and is left unchanged. Name a new folder with --out.",
                    shown=shown,
                )
            )
        _try_to_write(_place(folder))
    except OSError as error:
        raise BookFolderError(
            in_english(
                "The book cannot be written to {shown}: {reason}. Name another folder with --out.",
                shown=shown,
                reason=error.strerror,
            )
        ) from None


def _place(folder: Path) -> Path:
    """Return the folder with links and dots resolved; raise OSError if a link is broken."""
    return Path(os.path.realpath(folder, strict=folder.is_symlink()))


def _is_book(folder: Path) -> bool:
    mark = folder / MARK
    return mark.is_file() and mark.read_bytes() == SIGNED.encode()


def _try_to_write(place: Path) -> None:
    """Raise OSError if the parent folder cannot be written."""
    above = next(one for one in place.parents if one.exists())
    tempfile.TemporaryDirectory(dir=above).cleanup()


def write_book(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write the files to a new folder next to the old one, and then replace the old one.

    Args:
        folder: the folder of the book.
        files: content by path inside the folder.

    Raises:
        BookFolderError: the folder contains files that are not a book.
        UnfinishedError: a file cannot be written.
    """
    require_place(folder)
    place = _place(folder)
    fresh = place.with_name(f".{place.name}.writing")
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        for path, content in {**files, MARK: SIGNED}.items():
            (fresh / path).parent.mkdir(parents=True, exist_ok=True)
            (fresh / path).write_bytes(content if isinstance(content, bytes) else content.encode())
        if place.exists():
            shutil.rmtree(place)
        fresh.replace(place)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise UnfinishedError(
            in_english(
                "The book cannot be written to {folder}: {reason}.",
                folder=printable(str(folder)),
                reason=error.strerror,
            )
        ) from None
