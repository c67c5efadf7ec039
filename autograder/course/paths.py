"""The folders of the course (in a clone, its own; otherwise the current folder and this package), and complete replacement of files."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping
from pathlib import Path

from autograder.errors import InputError, printable
from autograder.requirements import CLONE, PACKAGE

# Settings and progress. Outside of a clone, the name of the folder shows that it belongs to this package.
OWN = ".home" if CLONE else ".autograder"
HANDED_OUT = Path(OWN) / "handed_out.json"


def find_folder(start: Path) -> Path:
    """Return the folder with a student's copies if the package was installed.

    This is the nearest folder, from `start` upwards, into which `lab` has copied the lessons, so that a notebook and a
    command also find it from inside `work/`; if there is no such folder, `start`.
    """
    return next((folder for folder in (start, *start.parents) if (folder / HANDED_OUT).is_file()), start)


ROOT = CLONE or find_folder(Path.cwd())
SOLUTIONS = ROOT / "solutions"
NOTEBOOKS = CLONE / "notebooks" if CLONE else PACKAGE / "course" / "notebooks"
WORK = ROOT / "work"
CLASS = CLONE / "class" if CLONE else Path.cwd()
VARIANTS = ROOT / "class" / "variants"
LANGUAGES = ROOT / "class" / "languages"
HOME = ROOT / OWN


def lessons(folder: Path = NOTEBOOKS) -> list[Path]:
    """Return the notebooks of all lessons in a folder, in the course's order."""
    return sorted(path for path in folder.glob("*/*.ipynb") if ".ipynb_checkpoints" not in path.parts)


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by their paths below a folder, and create the folders above them."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


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
            with contextlib.suppress(OSError):
                written.unlink()
        raise


def write_results(target: Path, files: Mapping[Path, bytes], advice: str = "") -> None:
    """Write the files of a command like `replace_files`. If that fails, raise InputError with the target and the advice."""
    try:
        replace_files(files)
    except OSError as error:
        raise InputError(f"{printable(str(target))} cannot be written to ({error.strerror}){advice}") from None
