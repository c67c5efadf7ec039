"""Where the teacher's cells run in the trusted process: in a copy of the teacher's folder, with the teacher's modules."""

from __future__ import annotations

import contextlib
import functools
import os
import pkgutil
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
        with _importing_from(modules, folder, replaced_modules(files)), _temporary_files_in(whole):
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
def _importing_from(modules: str, work: Path, names: set[str]) -> Iterator[None]:
    before, hidden, known = list(sys.path), take_out(names), set(sys.path_importer_cache)
    # A relative entry would find what lies in the working folder.
    sys.path[:] = path_with(modules, filter(os.path.isabs, before))
    sys.path_hooks.insert(0, finder := functools.partial(_finder, modules, work))
    try:
        yield
    finally:
        sys.path_hooks.remove(finder)
        for entry in sys.path_importer_cache.keys() - known:
            del sys.path_importer_cache[entry]
        sys.path[:] = before
        take_out(names | _imported_from(modules))
        sys.modules.update(hidden)


def _finder(modules: str, work: Path, entry: str) -> Any:
    """Returns what finds modules for an entry that a teacher's cell has added to `sys.path`, such as "./code".

    It means the copy into which nothing writes, as for modules beside the notebook.

    Raises:
        ImportError: the entry lies elsewhere, and Python's own finders are asked.
    """
    path = Path(entry).resolve()
    if not path.is_relative_to(work):
        raise ImportError
    return pkgutil.get_importer(os.path.join(modules, path.relative_to(work)))


def _imported_from(folder: str) -> set[str]:
    """Returns the modules whose files lie in a folder, without those of them that are parts of others."""
    found = {name: str(getattr(module, "__file__", "")) for name, module in list(sys.modules.items())}
    return {name.partition(".")[0] for name, file in found.items() if file.startswith(f"{folder}{os.sep}")}
