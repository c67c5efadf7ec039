"""Reads what a student submitted. Nothing in it can harm the reader: odd files become a reason for the grade, never a crash."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder.errors import InputError
from autograder.grade.clean.harmless_cells import harmless_attachments
from autograder.grade.wire.limits import Limits


class UnreadableSubmission(InputError):
    """The file cannot be graded; the message is the reason that the student and the teacher read."""


def notebook_bytes(path: Path, limits: Limits) -> bytes:
    """Returns the file's bytes.

    Raises:
        UnreadableSubmission: it is missing, too large, or not a plain file (a link, pipe or folder).
    """
    try:
        return _plain_file(path, limits.notebook_bytes)
    except FileNotFoundError:
        raise UnreadableSubmission(f"no file {path.name} was submitted") from None
    except OSError as error:
        raise UnreadableSubmission(f"{path.name} cannot be read ({error.strerror or error})") from None


def parse(data: bytes) -> list[NotebookNode]:
    """Returns the notebook's cells in nbformat 4: no outputs, of the metadata only the claimed grade_id, of attachments only pictures.

    Raises:
        UnreadableSubmission: it is not JSON, or not a notebook.
    """
    try:
        content = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UnreadableSubmission("the file is not text (UTF-8), so not a notebook") from None
    except (ValueError, RecursionError):
        raise UnreadableSubmission("the file is not JSON, so not a notebook; it may have been cut off") from None
    try:
        cells = _upgraded(content)["cells"]
        return [cell for item in cells if (cell := _cell(item)) is not None]
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        raise UnreadableSubmission("the file is JSON but not a notebook: it has no list of cells") from None


def attachments(folder: Path, limits: Limits) -> tuple[dict[str, bytes], list[str]]:
    """Returns the other files beside the notebooks by their relative paths, and a note for each that was left out.

    Only plain files are read: a link could lead to the gradebook, a pipe could block the reader.
    """
    found: dict[str, bytes] = {}
    notes: list[str] = []
    left = limits.attachment_bytes
    for parent, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if name != ".ipynb_checkpoints")
        for name in sorted(names):
            path = Path(parent, name)
            relative = str(path.relative_to(folder))
            if path.suffix == ".ipynb" or relative == "timestamp.txt":
                continue
            try:
                relative.encode("utf-8")
                found[relative] = _plain_file(path, left)
                left -= len(found[relative])
            except (OSError, UnreadableSubmission, UnicodeError) as error:
                notes.append(f"{relative!r} was left out: {error}")
    return found, notes


def digest(data: bytes, files: dict[str, bytes]) -> str:
    """Returns a hash of the notebooks' bytes and the other files."""
    whole = hashlib.sha256(data)
    for name in sorted(files):
        whole.update(repr((name, hashlib.sha256(files[name]).hexdigest())).encode())
    return whole.hexdigest()


def _plain_file(path: Path, largest: int) -> bytes:
    # Without NONBLOCK, opening a pipe would wait for its writer forever.
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(number, "rb") as file:
        about = os.fstat(number)
        if not stat.S_ISREG(about.st_mode):
            raise UnreadableSubmission(f"{path.name} is not a plain file")
        data = file.read(largest + 1)
    if len(data) > largest:
        raise UnreadableSubmission(f"{path.name} is larger than the {largest // 2**20} MiB that are allowed")
    return data


def _upgraded(content: Any) -> Any:
    version = content.get("nbformat", 4)
    if isinstance(version, int) and version < 4:
        return nbformat.convert(nbformat.from_dict(content), 4)
    return content


def new_cell(kind: str, source: str) -> NotebookNode:
    """Returns a cell in nbformat 4. nbformat's own functions validate each cell, which takes longer than running most of them."""
    own: dict[str, Any] = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return NotebookNode(cell_type=kind, source=source, metadata=NotebookNode(), **own)


def _cell(item: Any) -> NotebookNode | None:
    source = item.get("source", "") if isinstance(item, dict) else None
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        return None
    kind = item.get("cell_type")
    kind = kind if kind in ("code", "raw") else "markdown"
    cell = new_cell(kind, source.encode("utf-8", "replace").decode())
    known = (item.get("metadata") or {}).get("nbgrader") if isinstance(item.get("metadata"), dict) else None
    if isinstance(known, dict) and isinstance(known.get("grade_id"), str):
        cell.metadata["nbgrader"] = NotebookNode(grade_id=known["grade_id"])
    pictures = harmless_attachments(item.get("attachments")) if kind == "markdown" else None
    if pictures:
        cell["attachments"] = pictures
    return cell
