"""Reads what a student submitted. Nothing in it can harm the reader: odd notebooks become a reason for the grade, never a crash."""

from __future__ import annotations

import codecs
import json
from typing import Any

import msgspec
import nbformat
from nbformat import NotebookNode

from autograder.errors import as_utf8
from autograder.grade.clean.harmless_cells import harmless_attachments
from autograder.grade.submission.submitted_files import UnreadableSubmission
from autograder.locale.languages import SOURCE, language_of
from autograder.locale.translations import in_english

MOST_CELLS = 5_000
"""Of one notebook: each takes a thousand bytes and a millisecond of the grader's, however little stands in it."""


def parse(data: bytes) -> list[NotebookNode]:
    """Returns the notebook's cells in nbformat 4: no outputs, of the metadata only the claimed grade_id, of attachments only pictures.

    Raises:
        UnreadableSubmission: it is not JSON, or not a notebook, or has too many cells.
    """
    try:
        content = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UnreadableSubmission(in_english("the file is not text (UTF-8), so not a notebook")) from None
    except (ValueError, RecursionError):
        raise UnreadableSubmission(
            in_english("the file is not JSON, so not a notebook; it may have been cut off")
        ) from None
    try:
        cells = _upgraded(content)["cells"]
        if not isinstance(cells, list):
            raise TypeError
        found = [cell for item in cells[:MOST_CELLS] if (cell := _cell(item)) is not None]
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        raise UnreadableSubmission(in_english("the file is JSON but not a notebook: it has no list of cells")) from None
    if len(cells) > MOST_CELLS:
        raise UnreadableSubmission(
            in_english(
                "the notebook has {count} cells, and at most {most} are graded",
                count=f"{len(cells):,}",
                most=f"{MOST_CELLS:,}",
            )
        )
    return found


class _Metadata(msgspec.Struct):
    metadata: dict[str, Any] = {}


def submitted_language(data: bytes) -> str:
    """Returns the language in which the notebook was handed out; English where it names none that the course has."""
    try:
        return language_of(msgspec.json.decode(data.removeprefix(codecs.BOM_UTF8), type=_Metadata).metadata)
    except (msgspec.MsgspecError, RecursionError):
        return SOURCE


def _upgraded(content: Any) -> Any:
    version = content.get("nbformat", 4)
    if version in (1, 2, 3):
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
    cell = new_cell(kind, as_utf8(source))
    known = (item.get("metadata") or {}).get("nbgrader") if isinstance(item.get("metadata"), dict) else None
    if isinstance(known, dict) and isinstance(known.get("grade_id"), str):
        cell.metadata["nbgrader"] = NotebookNode(grade_id=known["grade_id"])
    pictures = harmless_attachments(item.get("attachments")) if kind == "markdown" else None
    if pictures:
        cell["attachments"] = pictures
    return cell
