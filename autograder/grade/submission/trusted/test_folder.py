"""Where the teacher's cells run in the trusted process: in a copy of the teacher's folder, with the teacher's modules."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from autograder.grade.submission.teacher.teacher_files import write_files
from autograder.grade.submission.trusted.foreign_files import teachers_folders
from autograder.grade.wire.shared.own_modules import path_with, replaced_modules, take_out


@contextlib.contextmanager
def working_folder(files: dict[str, bytes]) -> Iterator[Path]:
    """A block in which the working folder is a fresh copy of the teacher's files, and helper modules can be imported.

    Temporary files lie beside the copy, in a new folder, which is deleted after the block.

    Modules come from another copy, which nothing writes into: what a submission wrote may be brought into the working folder,
    and must never be imported here. Each block imports the modules again, so that none carries anything to the next submission.
    """
    before, modules = os.getcwd(), _modules_folder(tuple(sorted(files.items())))
    whole = Path(tempfile.mkdtemp(prefix="test-")).resolve()
    (folder := whole / "work").mkdir()
    try:
        write_files(files, folder)
        os.chdir(folder)
        with _importing_from(modules, replaced_modules(files)), _temporary_files_in(whole):
            yield folder
    finally:
        os.chdir(before)
        shutil.rmtree(whole, ignore_errors=True)


@contextlib.contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


@functools.lru_cache(maxsize=8)
def _modules_folder(files: tuple[tuple[str, bytes], ...]) -> str:
    folder = Path(tempfile.mkdtemp(prefix="modules-")).resolve()
    write_files(dict(files), folder)
    teachers_folders.append(str(folder))
    return str(folder)


@contextlib.contextmanager
def _importing_from(folder: str, names: set[str]) -> Iterator[None]:
    before, hidden = list(sys.path), take_out(names)
    # A relative entry would find what lies in the working folder.
    sys.path[:] = path_with(folder, filter(os.path.isabs, before))
    try:
        yield
    finally:
        sys.path[:] = before
        take_out(names)
        sys.modules.update(hidden)
