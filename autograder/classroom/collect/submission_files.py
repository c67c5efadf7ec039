"""The files of a submission under their names in the student's folder, with zips unpacked and notebooks matched to the assignment."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from autograder.classroom.collect.download import (
    DownloadedFile,
    DownloadedSubmission,
    DownloadError,
    is_archive,
    unpacked,
)
from autograder.errors import printable
from autograder.grade.submission.submitted_files import LARGEST_NOTEBOOK, UnreadableSubmission, parse, without_outputs
from autograder.grade.wire.limits import Limits

# Browsers, systems and editors add these to a name that is already used: "x (1)", "x-1", "x - Copy", "Copy of x", "x-Copy1".
ADDED = re.compile(r"^(?:copy of )+|(?: \(\d+\)| - copy(?: \(\d+\))?|[ -]copy ?\d*|-\d{1,2}| \d{1,2})+$")
ADDED_EXTENSIONS = (".txt", ".json", ".html", ".htm", ".py", ".zip", ".download")


@dataclass(frozen=True)
class FoundNotebook:
    """A submitted notebook: its path, and how it was recognized; "" if by its exact name."""

    path: str
    how: str


@dataclass(frozen=True)
class FoundNotebooks:
    """The notebooks among some files."""

    found: dict[str, FoundNotebook]  # the recognized files, by the notebook's name
    unknown: dict[str, str]  # paths of notebooks that do not belong to the assignment, with the reason
    spare: list[str]  # paths of further copies; `found` contains the latest
    missing: list[str]  # names of notebooks without a file


def shapes_in(folder: Path) -> dict[str, frozenset[str]]:
    """Return nbgrader's ids of the cells of each source notebook in a folder, by the notebook's name."""
    return {path.stem: _cells_of(path.read_bytes()) for path in sorted(folder.glob("*.ipynb"))}


def find_notebooks(
    files: Mapping[str, DownloadedFile], shapes: Mapping[str, frozenset[str]], chosen: Mapping[str, str]
) -> FoundNotebooks:
    """Match files, by path, to notebooks by exact name, by a similar name, or by their cells.

    `chosen` contains the notebook that the teacher assigned to a file, by its path in the download; "" for no notebook.
    """
    names: dict[str, list[tuple[tuple[int, int, str], FoundNotebook]]] = {}
    unknown: dict[str, str] = {}
    for path, file in files.items():
        cells = _cells(file) if _may_be_notebook(path) else None
        if cells is None:
            continue
        name, how = _which(path, file, cells, shapes, chosen)
        if name is None:
            unknown[path] = how
        else:
            # Prefer the highest copy number, then the exact name, then a similar name, then the cells.
            names.setdefault(name, []).append(((_copy(path), -len(how), path), FoundNotebook(path, how)))
    best = {name: max(listed)[1] for name, listed in names.items()}
    spare = [match.path for listed in names.values() for _, match in listed if match not in best.values()]
    return FoundNotebooks(best, unknown, spare, [name for name in shapes if name not in best])


def _which(
    path: str,
    file: DownloadedFile,
    cells: frozenset[str],
    shapes: Mapping[str, frozenset[str]],
    chosen: Mapping[str, str],
) -> tuple[str | None, str]:
    if file.path in chosen:
        return chosen[file.path] if chosen[file.path] in shapes else None, "as you said"
    fitting = [name for name, ids in shapes.items() if not cells or not ids or cells & ids]
    if (stem := path.rpartition("/")[2].removesuffix(".ipynb")) in fitting:
        return stem, ""
    if similar := next((name for name in fitting if like_name(path) == like_name(name)), None):
        return similar, "by a similar name"
    (most, best), (second, _), *_ = [
        *sorted(((len(cells & shapes[name]), name) for name in shapes), reverse=True),
        (0, ""),
        (0, ""),
    ]
    if most > second and 2 * most > len(shapes[best]):
        return best, "by its cells"
    return None, "its cells are of another assignment" if cells and not most else "no notebook has this name"


def like_name(path: str) -> str:
    """Return a file's name without extensions, copy numbers, case, spaces and punctuation."""
    name = unicodedata.normalize("NFKC", path.rpartition("/")[2]).casefold().strip()
    while (short := re.sub(r"\.[a-z]+$", "", name)) != name and name[len(short) :] in (".ipynb", *ADDED_EXTENSIONS):
        name = short.strip()
    return re.sub(r"[\W_]+", "", ADDED.sub("", name) or name)


def _copy(path: str) -> int:
    """Return the number that a browser or a system gave to a copy: 1 for "x (1).ipynb" and "x copy.ipynb", else 0."""
    match = re.search(r"(?:\((\d+)\)|-(?:copy)?(\d{1,2})|[ -]copy ?(\d{0,2}))(?:\.\w+)*$", path, re.I)
    return next((int(number or 1) for number in match.groups() if number is not None), 0) if match else 0


def _may_be_notebook(path: str) -> bool:
    name = path.casefold()
    return ".ipynb" in name or not re.search(r"\.\w{1,8}$", name) or name.endswith((".txt", ".json"))


def _cells(file: DownloadedFile) -> frozenset[str] | None:
    """Return nbgrader's ids in a notebook; None if the file is not a notebook, an empty set if it is damaged."""
    try:
        return _cells_of(file.read(LARGEST_NOTEBOOK))
    except (DownloadError, UnreadableSubmission):
        return frozenset() if ".ipynb" in file.path.casefold() else None


def _cells_of(data: bytes) -> frozenset[str]:
    """Return nbgrader's ids of the cells of a notebook. Raise UnreadableSubmission if it is not a notebook."""
    cell_metadata = (cell.metadata.get("nbgrader") for cell in parse(without_outputs(data)))
    return frozenset(about.grade_id for about in cell_metadata if about)


LONGEST = 120  # maximum length of a file name in bytes
RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")  # Microsoft, "Naming Files, Paths, and Namespaces"


def writable_names(paths: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """Return, for each path, one that every file system accepts; all differ, also from those in `taken`, even if case is ignored."""
    used = {name.casefold() for name in taken}
    matches = {}
    for path in paths:
        name = "/".join(map(_writable, path.split("/")))
        stem, dot, suffix = name.rpartition(".")
        number, chosen = 1, name
        while chosen.casefold() in used:
            number += 1
            chosen = f"{stem} ({number}).{suffix}" if dot and "/" not in suffix else f"{name} ({number})"
        matches[path] = chosen
        used.add(matches[path].casefold())
    return matches


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


LIMITS = Limits()
BUDGET = LIMITS.attachment_bytes + LARGEST_NOTEBOOK
OTHER_ARCHIVES = (".rar", ".7z", ".tar", ".gz", ".tgz", ".bz2", ".xz")


@dataclass(frozen=True)
class ReadableSubmission:
    """A submission whose files are listed but not read yet."""

    downloaded: DownloadedSubmission
    files: dict[str, DownloadedFile]  # the files by the student's path, including those inside zips
    notebooks: FoundNotebooks  # the files that are notebooks of the assignment
    names: dict[str, str]  # for each file to keep, its name in the student's folder
    notes: list[str]  # the files that were left out, one line each

    def read(self) -> dict[str, bytes]:
        """Return the contents by name; leave out unreadable files and those over the limits of a submission, with a note."""
        contents: dict[str, bytes] = {}
        bytes_left = LIMITS.attachment_bytes
        for path, name in self.names.items():
            is_notebook = name.endswith(".ipynb")
            try:
                contents[name] = self.files[path].read(LARGEST_NOTEBOOK if is_notebook else bytes_left)
            except DownloadError as error:
                self.notes.append(f"{printable(path)} was left out: {error}")
                continue
            bytes_left -= 0 if is_notebook else len(contents[name])
        return contents


def readable(
    downloaded: DownloadedSubmission, shapes: Mapping[str, frozenset[str]], chosen: Mapping[str, str]
) -> ReadableSubmission:
    """Return the submission with its zips listed and its notebooks recognized; `chosen` is as in `find_notebooks`."""
    notes: list[str] = []
    files = dict(_flat(downloaded.files, notes))
    matches = find_notebooks(files, shapes, chosen)
    notebooks = {match.path: f"{name}.ipynb" for name, match in matches.found.items()}
    others = [path for path in files if path not in notebooks and path not in matches.spare]
    for path in others[LIMITS.attachment_count :]:
        del files[path]
    if len(others) > LIMITS.attachment_count:
        notes.append(f"{len(others) - LIMITS.attachment_count} files more than {LIMITS.attachment_count} were left out")
    notes += [f"{printable(path)} was left out: another copy of the notebook is newer" for path in matches.spare]
    taken = [*notebooks.values(), "timestamp.txt"]
    names = notebooks | writable_names(others[: LIMITS.attachment_count], taken)
    return ReadableSubmission(downloaded, files, matches, names, notes)


def _flat(files: Mapping[str, DownloadedFile], notes: list[str]) -> dict[str, DownloadedFile]:
    flat: dict[str, DownloadedFile] = {}
    for path, file in files.items():
        if path.casefold().endswith(OTHER_ARCHIVES):
            notes.append(f"{printable(path)} is an archive that is not unpacked; only zips are")
        if not is_archive(path):
            flat[path] = file
            continue
        inside = unpacked(file, BUDGET)
        notes.extend(inside.notes)
        for packed in _without_common_folder(inside.files):
            flat.setdefault(packed.path, DownloadedFile(f"{file.path}/{packed.path}", packed.read))
    return flat


def _without_common_folder(files: list[DownloadedFile]) -> list[DownloadedFile]:
    """Return the files without the folders that contain all of them."""
    firsts = {file.path.partition("/")[0] for file in files}
    if len(firsts) != 1 or any("/" not in file.path for file in files):
        return files
    return _without_common_folder([DownloadedFile(file.path.partition("/")[2], file.read) for file in files])
