"""Where a book is written: a new folder, an empty one, or an older book, which is replaced as a whole or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from autograder.errors import InputError, UnfinishedError
from autograder.locale.translations import in_english
from autograder.printable import printable

MARK = "book.json"
"""A file that says that a folder holds a book and nothing else."""


class BookFolderError(InputError):
    """The book cannot be written here; the message says why."""


def require_place(folder: Path) -> None:
    """Makes sure that a book may be written to a folder, before anything is recorded.

    Raises:
        BookFolderError: something lies there that is no book.
    """
    shown = printable(str(folder))
    if folder.exists() and not folder.is_dir():
        raise BookFolderError(
            in_english("{shown} is a file, and a book is a folder. Name another with --out.", shown=shown)
        )
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise BookFolderError(
            in_english(
                "{shown} holds other things than a book, which stay as they are. Name a new folder with --out.",
                shown=shown,
            )
        )


def write_book(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Writes the files beside the folder first, and then puts them in its place.

    Args:
        files: content by path inside the folder.

    Raises:
        BookFolderError: something lies there that is no book.
        UnfinishedError: the disk says no; what was there before is still there.
    """
    require_place(folder)
    fresh = folder.with_name(f".{folder.name}.writing")
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        for path, content in {**files, MARK: json.dumps({"made by": "autograder book"})}.items():
            (fresh / path).parent.mkdir(parents=True, exist_ok=True)
            (fresh / path).write_bytes(content if isinstance(content, bytes) else content.encode())
        if folder.exists():
            shutil.rmtree(folder)
        fresh.replace(folder)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise UnfinishedError(
            in_english(
                "The book cannot be written to {folder}: {reason}.",
                folder=printable(str(folder)),
                reason=error.strerror,
            )
        ) from None
