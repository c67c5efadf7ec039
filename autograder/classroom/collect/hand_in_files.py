"""The files of a submission under their names in the student's folder, with zips unpacked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from autograder.classroom.collect.download import DownloadedFile, DownloadError, is_archive, unpacked
from autograder.classroom.collect.downloaded_hand_in import DownloadedHandIn
from autograder.classroom.collect.notebook_names import FoundNotebooks, NotebookShape, find_notebooks
from autograder.grade.submission.submitted_files import LARGEST_NOTEBOOK
from autograder.grade.wire.limits import Limits
from autograder.printable import printable

LONGEST = 120  # maximum length of a file name in bytes
RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")  # Microsoft, "Naming Files, Paths, and Namespaces"


def writable_names(paths: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """Return, for each path, one that every file system accepts; all are different even if case is ignored.

    Args:
        paths: relative, with `/` between folders.
        taken: names that are already used.
    """
    used = {name.casefold() for name in taken}
    found = {}
    for path in paths:
        name = "/".join(map(_writable, path.split("/")))
        found[path] = _unused(name, used)
        used.add(found[path].casefold())
    return found


def _writable(part: str) -> str:
    part = "".join(letter if letter.isprintable() and letter not in '<>:"|?*\\' else "_" for letter in part)
    part = part.rstrip(". ") or "_"
    if part.startswith("-") or RESERVED.fullmatch(part):
        part = f"_{part}"
    stem, dot, suffix = part.rpartition(".")
    while len(part.encode()) > LONGEST and part:
        stem, suffix = (stem[:-1], suffix) if stem else ("", suffix[:-1])
        part = f"{stem}{dot}{suffix}" if stem else suffix
    return part


def _unused(name: str, used: set[str]) -> str:
    stem, dot, suffix = name.rpartition(".")
    number, chosen = 1, name
    while chosen.casefold() in used:
        number += 1
        chosen = f"{stem} ({number}).{suffix}" if dot and "/" not in suffix else f"{name} ({number})"
    return chosen


LIMITS = Limits()
BUDGET = LIMITS.attachment_bytes + LARGEST_NOTEBOOK
OTHER_ARCHIVES = (".rar", ".7z", ".tar", ".gz", ".tgz", ".bz2", ".xz")


class ReadableHandIn(NamedTuple):
    """A submission whose files are listed but not read yet.

    Attributes:
        hand_in: the submission as downloaded.
        files: the files by the student's path, including those inside zips.
        found: the files that are notebooks of the assignment.
        names: for each file to keep, its name in the student's folder.
        notes: the files that were left out, one line each.
    """

    hand_in: DownloadedHandIn
    files: dict[str, DownloadedFile]
    found: FoundNotebooks
    names: dict[str, str]
    notes: list[str]

    def read(self) -> dict[str, bytes]:
        """Return the contents by name; leave out unreadable files and those over the limits of a submission, with a note."""
        contents: dict[str, bytes] = {}
        left = LIMITS.attachment_bytes
        for path, name in self.names.items():
            is_notebook = name.endswith(".ipynb")
            try:
                contents[name] = self.files[path].read(LARGEST_NOTEBOOK if is_notebook else left)
            except DownloadError as error:
                self.notes.append(f"{printable(path)} was left out: {error}")
                continue
            left -= 0 if is_notebook else len(contents[name])
        return contents


def readable(hand_in: DownloadedHandIn, shapes: list[NotebookShape], chosen: Mapping[str, str]) -> ReadableHandIn:
    """Return the submission with its zips listed and its notebooks recognized.

    Args:
        hand_in: the submission as downloaded.
        shapes: the assignment's notebooks.
        chosen: a file's path in the download → the notebook that the teacher assigned to it.
    """
    notes: list[str] = []
    files = dict(_flat(hand_in.files, notes))
    found = find_notebooks(files, shapes, chosen)
    notebooks = {one.path: f"{name}.ipynb" for name, one in found.found.items()}
    others = [path for path in files if path not in notebooks and path not in found.spare]
    for path in others[LIMITS.attachment_count :]:
        del files[path]
    if len(others) > LIMITS.attachment_count:
        notes.append(f"{len(others) - LIMITS.attachment_count} files more than {LIMITS.attachment_count} were left out")
    notes += [f"{printable(path)} was left out: another copy of the notebook is newer" for path in found.spare]
    taken = [*notebooks.values(), "timestamp.txt"]
    names = notebooks | writable_names(others[: LIMITS.attachment_count], taken)
    return ReadableHandIn(hand_in, files, found, names, notes)


def _flat(files: Mapping[str, DownloadedFile], notes: list[str]) -> dict[str, DownloadedFile]:
    found: dict[str, DownloadedFile] = {}
    for path, file in files.items():
        if path.casefold().endswith(OTHER_ARCHIVES):
            notes.append(f"{printable(path)} is an archive that is not unpacked; only zips are")
        if not is_archive(path):
            found[path] = file
            continue
        inside = unpacked(file, BUDGET)
        notes.extend(inside.notes)
        for one in _without_common_folder(inside.files):
            found.setdefault(one.path, DownloadedFile(f"{file.path}/{one.path}", one.read))
    return found


def _without_common_folder(files: list[DownloadedFile]) -> list[DownloadedFile]:
    """Return the files without the folders that contain all of them."""
    firsts = {file.path.partition("/")[0] for file in files}
    if len(firsts) != 1 or any("/" not in file.path for file in files):
        return files
    return _without_common_folder([DownloadedFile(file.path.partition("/")[2], file.read) for file in files])
