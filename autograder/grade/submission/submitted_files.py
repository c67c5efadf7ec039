"""Reading of a submission's files, which cannot harm the reader: odd files become a note or a reason, never a crash."""

from __future__ import annotations

import codecs
import errno
import hashlib
import itertools
import json
import os
import re
import stat
from collections import deque
from collections.abc import Iterator, Set
from pathlib import Path, PurePath
from typing import Any

import msgspec
import nbformat
from nbformat import NotebookNode

from autograder.errors import InputError, as_utf8, printable
from autograder.grade.clean.harmless_cells import harmless_attachments
from autograder.grade.wire.limits import Limits
from autograder.locale.languages import SOURCE, language_of

MOST_CELLS = 5_000
"""The maximum number of cells of a notebook; each takes a thousand bytes and a millisecond in the grader, even if it is short."""

# Bytes of a file's path inside the submission; it is also written to other folders with longer names.
LONGEST_PATH = 512
LARGEST_NOTEBOOK = 256 * 2**20  # bytes of a notebook's file, with its outputs
MOST_BRACKETS = 3_000_000  # in the outputs of a notebook; each takes a microsecond
LONGEST_LIST = 20  # notes on files that were left out
SHOWN = 40  # characters of the beginning and the end of a long name in a note


class UnreadableSubmission(InputError):
    """The file cannot be graded; the message is the reason for the student and the teacher."""


def parse(data: bytes) -> list[NotebookNode]:
    """Return the notebook's cells in nbformat 4, with only the claimed grade_id of the metadata, pictures as attachments, no outputs.

    Raises:
        UnreadableSubmission: it is not JSON, or not a notebook, or has too many cells.
    """
    try:
        content = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UnreadableSubmission.of("submission.not_text|the file is not text (UTF-8), so not a notebook") from None
    except (ValueError, RecursionError):
        raise UnreadableSubmission.of(
            "submission.not_json|the file is not JSON, so not a notebook; it may have been cut off"
        ) from None
    try:
        if content.get("nbformat", 4) in (1, 2, 3):
            content = nbformat.convert(nbformat.from_dict(content), 4)
        cells = content["cells"]
        if not isinstance(cells, list):
            raise TypeError
        readable_cells = [cell for item in cells[:MOST_CELLS] if (cell := _cell(item)) is not None]
    except Exception:  # such as an UnboundLocalError: nbformat 5.10 converts old notebooks without checking their form
        raise UnreadableSubmission.of(
            "submission.no_cells|the file is JSON but not a notebook: it has no list of cells"
        ) from None
    if len(cells) > MOST_CELLS:
        raise UnreadableSubmission.of(
            "submission.too_many_cells|the notebook has {count} cells, and at most {most} are graded",
            count=f"{len(cells):,}",
            most=f"{MOST_CELLS:,}",
        )
    return readable_cells


class _Metadata(msgspec.Struct):
    metadata: dict[str, Any] = {}


def submitted_language(data: bytes) -> str:
    """Return the language in which the notebook was handed out; English if it is missing or unknown."""
    try:
        return language_of(msgspec.json.decode(data.removeprefix(codecs.BOM_UTF8), type=_Metadata).metadata)
    except (msgspec.MsgspecError, RecursionError):
        return SOURCE


def new_cell(kind: str, source: str) -> NotebookNode:
    """Return a cell in nbformat 4. nbformat's own functions validate each cell, which takes longer than running most cells."""
    empty: dict[str, Any] = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return NotebookNode(cell_type=kind, source=source, metadata=NotebookNode(), **empty)


def _cell(item: Any) -> NotebookNode | None:
    source = item.get("source", "") if isinstance(item, dict) else None
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        return None
    kind = item.get("cell_type")
    kind = kind if kind in ("code", "raw") else "markdown"
    cell = new_cell(kind, as_utf8(source))
    claimed = (item.get("metadata") or {}).get("nbgrader") if isinstance(item.get("metadata"), dict) else None
    if isinstance(claimed, dict) and isinstance(claimed.get("grade_id"), str):
        cell.metadata["nbgrader"] = NotebookNode(grade_id=claimed["grade_id"])
    pictures = harmless_attachments(item.get("attachments")) if kind == "markdown" else None
    if pictures:
        cell["attachments"] = pictures
    return cell


def notebook_bytes(path: Path, limits: Limits) -> bytes:
    """Return a notebook's bytes without its outputs. Raise UnreadableSubmission if it is missing, too large, or not a plain file."""
    try:
        data = without_outputs(plain_file(path, LARGEST_NOTEBOOK))
        _check_size(path, len(data), limits.notebook_bytes)
        return data
    except FileNotFoundError:
        raise UnreadableSubmission.of(
            "submission.missing|no file {file} was submitted", file=printable(path.name)
        ) from None
    except OSError as error:
        raise UnreadableSubmission.of(
            "submission.not_read|{file} cannot be read ({reason})", file=printable(path.name), reason=reason_of(error)
        ) from None


def attachments(folder: Path, limits: Limits) -> tuple[dict[str, bytes], list[str]]:
    """Return the other files next to the notebooks by their relative paths, and a note for each that was left out.

    Only plain files are read: a link could lead to the gradebook, and a pipe could block the reader.
    """
    files: dict[str, bytes] = {}
    notes: list[str] = []
    bytes_left = limits.attachment_bytes
    for path in _files_under(folder, limits.attachment_count, notes):
        relative = str(path.relative_to(folder))
        if path.suffix == ".ipynb" or relative == "timestamp.txt":
            continue
        try:
            _check_path(relative)
            files[relative] = plain_file(path, bytes_left)
            bytes_left -= len(files[relative])
        except (OSError, UnreadableSubmission) as error:
            notes.append(f"{_shortened(relative)} was left out: {reason_of(error)}")
    return files, [*notes[:LONGEST_LIST], *([f"{len(notes) - LONGEST_LIST} more"] if len(notes) > LONGEST_LIST else [])]


def without_clashes(files: dict[str, bytes], taken: Set[str]) -> tuple[dict[str, bytes], list[str]]:
    """Return the files that can be in one folder with the others, and a note for each that cannot.

    A file cannot be there if it needs a folder whose name another file has.
    """
    folders = {str(parent) for name in taken for parent in PurePath(name).parents}
    compatible = {
        name: data
        for name, data in files.items()
        if name not in folders and not taken & {str(parent) for parent in PurePath(name).parents}
    }
    return compatible, [
        f"{_shortened(name)} was left out: the course has a file or folder of this name"
        for name in files
        if name not in compatible
    ]


def digest(data: bytes, files: dict[str, bytes]) -> str:
    """Return a hash of the notebooks' bytes and the other files."""
    whole = hashlib.sha256(data)
    for name in sorted(files):
        whole.update(repr((name, hashlib.sha256(files[name]).hexdigest())).encode())
    return whole.hexdigest()


def plain_file(path: Path, largest: int) -> bytes:
    """Return a file's bytes, at most `largest`.

    Raises:
        UnreadableSubmission: it is larger, or not a plain file (a link, pipe or folder).
        OSError: it is missing, or cannot be opened.
    """
    mode = os.lstat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):  # opening some devices has side effects
        raise UnreadableSubmission.of("submission.special|{file} is not a plain file", file=printable(path.name))
    # Without NONBLOCK, opening a pipe that has replaced the file would wait forever for a writer.
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(number, "rb") as file:
        about = os.fstat(number)
        if not stat.S_ISREG(about.st_mode):
            raise UnreadableSubmission.of("submission.special|{file} is not a plain file", file=printable(path.name))
        data = b"" if about.st_size > largest else file.read(largest + 1)
    _check_size(path, max(about.st_size, len(data)), largest)
    return data


def _check_size(path: Path, size: int, largest: int) -> None:
    if size > largest:
        raise UnreadableSubmission.of(
            "submission.too_large|{file} is larger than the {size} MiB that are allowed",
            file=printable(path.name),
            size=largest // 2**20,
        )


# These patterns do not backtrack, so each byte is read once, whatever the contents.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_KEY = rb'"(?:outputs"\s*+:\s*+\[|widgets"\s*+:\s*+\{)'
_NEXT_KEY = re.compile(rb'(?:[^"]++|(?!' + _KEY + rb")" + _STRING + rb")*+(" + _KEY + rb'|"|\Z)', re.DOTALL)
_NEXT_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|' + _STRING + rb')*+([\[\]{}]|"|\Z)', re.DOTALL)


def without_outputs(data: bytes) -> bytes:
    """Return a notebook's JSON without outputs and the states of widgets; unchanged if that would take too long.

    Only the structure of the JSON is searched; a cell's source that contains "outputs" is unchanged.
    """
    pieces, start, brackets_left = [], 0, MOST_BRACKETS
    while (key := _NEXT_KEY.match(data, start)) and len(key[1]) > 1:
        end, brackets_left = _closing_bracket(data, key.end(), brackets_left - 100)  # limits the outputs to 30,000
        if end is None:
            return data
        pieces.append(data[start : key.end()])
        start = end
    return b"".join([*pieces, data[start:]])


def _closing_bracket(data: bytes, start: int, most: int) -> tuple[int | None, int]:
    """Return the position of the bracket that closes the one at `start`, and the number of brackets that may still be read."""
    depth = 1
    for bracket in itertools.islice(_NEXT_BRACKET.finditer(data, start), max(most, 0)):
        most -= 1
        if bracket[1] in b'"':  # an unterminated text, or the end of the file
            break
        depth += 1 if bracket[1] in b"[{" else -1
        if depth == 0:
            return bracket.end() - 1, most
    return None, most


def reason_of(error: OSError | UnicodeEncodeError | UnreadableSubmission) -> str:
    """Return the description of an error without the path, which is shown next to it."""
    if isinstance(error, UnicodeEncodeError):
        return "its name is not UTF-8"
    if isinstance(error, OSError):
        return "it is a link" if error.errno == errno.ELOOP else (error.strerror or type(error).__name__)
    return str(error)


def is_about_the_machine(error: OSError) -> bool:
    """Return whether an error would affect every other student too: a full or failing disk, or not enough memory."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


def _files_under(folder: Path, most: int, notes: list[str]) -> Iterator[Path]:
    """Yield the non-folders below a folder, nearest first, and append notes on those left out.

    At most `most` entries are read, because a folder may contain millions of files, or thousands of nested folders.
    """
    waiting = deque([folder])
    while waiting:
        here = waiting.popleft()
        try:
            with os.scandir(here) as entries:
                listed = sorted(itertools.islice(entries, most + 1), key=lambda entry: entry.name)
            inside = [(entry.is_dir(follow_symlinks=False), Path(entry.path)) for entry in listed]
        except OSError as error:
            notes.append(f"{_shortened(str(here.relative_to(folder)))} was left out: {reason_of(error)}")
            continue
        waiting += [path for is_folder, path in inside if is_folder and path.name != ".ipynb_checkpoints"]
        yield from [path for is_folder, path in inside if not is_folder][:most]
        most -= len(inside)
        if most < 0:
            notes.append("there are too many files and folders; those beyond the limit were left out")
            return


def _check_path(relative: str) -> None:
    """Raise UnreadableSubmission for a path that cannot be written to the notebook's folder or next to the graded notebook."""
    try:
        length = len(relative.encode())
    except UnicodeEncodeError:
        raise UnreadableSubmission.of("submission.name_not_utf8|its name is not UTF-8") from None
    if length > LONGEST_PATH:
        raise UnreadableSubmission.of("submission.long_path|its path is longer than {count} bytes", count=LONGEST_PATH)
    if any(parent.suffix == ".ipynb" for parent in PurePath(relative).parents):
        # nbgrader would read the folder as a notebook
        raise UnreadableSubmission.of("submission.notebook_folder|it is in a folder with the name of a notebook")


def _shortened(name: str) -> str:
    shown = printable(name)
    return shown if len(shown) <= 2 * SHOWN else f"{shown[:SHOWN]}…{shown[-SHOWN:]}"
