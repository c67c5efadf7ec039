"""The cells of a source notebook: the kind of each, its released text, and its points."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec
import nbformat
from nbformat import NotebookNode

from autograder.course.author_cells import is_authors
from autograder.course.variants.declared_changes import DeclaredChanges
from autograder.course.variants.variant import vary
from autograder.errors import InputError
from autograder.grade.submission.cell_analysis import transformed

Kind = Literal["test", "manual", "answer", "task", "teacher", "text"]
Process = Literal["", "one", "two"]
# The first line of a function or a loop does nothing without its body.
DOES_NOTHING = re.compile(r"|#.*|pass|\.\.\.|raise NotImplementedError\b.*|.*:")


class BundledCell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell of the source as plain data."""

    cell_type: str  # nbformat's type
    metadata: dict[str, Any]
    attachments: dict[str, Any] | None = None  # the attachments, if any
    full: str  # the text as the teacher wrote it, with the model solution
    text: str  # the text in nbgrader's gradebook: without the solution, with hidden tests
    visible: str  # the released text; "" for a cell that is not released


class HiddenPart(msgspec.Struct, frozen=True, array_like=True):
    """A part of a cell that students do not see: its first and last line, from 1, and the teacher's name for it."""

    first: int
    last: int
    name: str


class SourceCell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell of the teacher's source, with its role in grading."""

    id: str  # nbgrader's grade_id, "" for a cell that nbgrader does not know
    # "test" is graded by running it, "manual" and "task" manually; "answer" is the student's, "teacher" is other code,
    # and "text" other text
    kind: Kind
    text: str  # the text with hidden tests; for an answer, the released text
    visible: str  # the released text
    points: float  # the maximum; 0 for a cell that is not graded
    # the cell as nbgrader would release it, but with hidden tests; its metadata determine the points
    cell: NotebookNode
    full: str  # the text as the teacher wrote it, with the model solution
    hidden: tuple[HiddenPart, ...] = ()  # the parts of the text that were not released
    process: Process = ""  # the process that the cell's own metadata request; "" without a request
    counts: bool = False  # whether the cell's own metadata make it count although the model answer fails it

    @property
    def is_answer(self) -> bool:
        """Whether students write it: an answer for tests, or one that is graded manually."""
        return self.kind == "answer" or (self.kind == "manual" and self._known("solution"))

    @property
    def is_code_answer(self) -> bool:
        """Whether it is an answer in code."""
        return self.is_answer and self.cell.cell_type == "code"

    @property
    def is_locked(self) -> bool:
        """Whether its text is the teacher's (`nbgrader.utils.is_locked`, 0.9.6); a task is always locked."""
        return not self._known("solution") and (self._known("grade") or self._known("locked") or self.kind == "task")

    @property
    def has_model_answer(self) -> bool:
        """Whether the source contains an answer that does something, and not the same as the text that was handed out."""
        return _doing(self.full) not in ([], _doing(self.text))

    @property
    def hides(self) -> bool:
        """Whether students see only part of the text."""
        return self.visible != self.text

    @property
    def hidden_lines(self) -> tuple[tuple[int, int], ...]:
        """The first and last lines of the hidden parts, from 1, in IPython's numbering when the cell runs.

        IPython removes empty lines at the beginning. If it changes the number of lines by converting magics, every line
        may be hidden.
        """
        blank = self.text[: len(self.text) - len(self.text.lstrip())].count("\n")
        same = transformed(self.text).rstrip("\n").count("\n") + blank == self.text.rstrip("\n").count("\n")
        parts = [(part.first - blank, part.last - blank) for part in self.hidden]
        return tuple(parts) if same or not parts else ((1, sys.maxsize),)

    def _known(self, flag: str) -> bool:
        return bool(self.cell.metadata.get("nbgrader", {}).get(flag))


def source_cells(cells: tuple[BundledCell, ...], mark: str) -> Iterator[SourceCell]:
    """Yield the cells that are graded or released. For a program to fix, the author's answer below it is the model.

    Raises:
        InputError: a cell cannot be graded.
    """
    for index, cell in enumerate(cells):
        if not is_authors(cell.metadata):
            answer = _authors_answer(cells[index + 1 :]) if "stub" in cell.metadata.get("tags", []) else ""
            yield _source_cell(cell, answer or cell.full, mark)


def varied(cells: tuple[BundledCell, ...], seed: int, changes: DeclaredChanges) -> tuple[BundledCell, ...]:
    """Return the cells of the notebook that a student with this seed was given.

    A variant of the release is the release of the variant, so each of a cell's texts is converted separately.
    """
    full, text, visible = (
        vary(_notebook(cells, version), seed, changes).cells for version in ("full", "text", "visible")
    )
    return tuple(
        msgspec.structs.replace(
            cell, metadata=two.metadata, full=cell_full.source, text=two.source, visible=three.source
        )
        for cell, cell_full, two, three in zip(cells, full, text, visible, strict=True)
    )


def _notebook(cells: tuple[BundledCell, ...], version: str) -> NotebookNode:
    return NotebookNode(metadata=NotebookNode(), cells=[_node(cell, getattr(cell, version)) for cell in cells])


def _node(cell: BundledCell, text: str) -> NotebookNode:
    extra: dict[str, Any] = {"outputs": [], "execution_count": None} if cell.cell_type == "code" else {}
    if cell.attachments:
        extra["attachments"] = cell.attachments
    return nbformat.from_dict({"cell_type": cell.cell_type, "source": text, "metadata": cell.metadata} | extra)


def _source_cell(cell: BundledCell, full: str, mark: str) -> SourceCell:
    metadata = cell.metadata.get("nbgrader", {})
    kind, name = _kind(cell, metadata), metadata.get("grade_id", "")
    process, counts = _settings(cell.metadata.get("autograder", {}), name)
    return SourceCell(
        id=name,
        kind=kind,
        text=cell.text,
        visible=cell.visible,
        points=float(metadata.get("points") or 0) if kind in ("test", "manual", "task") else 0.0,
        cell=_node(cell, cell.text),
        full=full,
        hidden=tuple(_hidden_parts(cell.text, cell.visible, mark)),
        process=process,
        counts=counts,
    )


def _kind(cell: BundledCell, metadata: Mapping[str, Any]) -> Kind:
    if metadata.get("task"):
        return "task"
    if metadata.get("grade"):
        return "manual" if metadata.get("solution") or cell.cell_type != "code" else "test"
    if metadata.get("solution"):
        return "answer"
    return "teacher" if cell.cell_type == "code" else "text"


def _settings(about: Any, name: str) -> tuple[Process, bool]:
    """Return the values of "process" and "counts" in a cell's metadata under "autograder"."""
    settings = about if isinstance(about, dict) else {"process": about}
    process, counts = settings.get("process", ""), settings.get("counts", False)
    if process not in ("", "one", "two") or not isinstance(counts, bool):
        raise InputError(
            f'the cell {name!r} has the metadata {{"autograder": {about!r}}}. Use one of {{"process": "one"}}, '
            f'{{"process": "two"}} and {{"counts": true}}'
        )
    return process, counts


def _doing(text: str) -> list[str]:
    return [line for line in map(str.strip, text.splitlines()) if not DOES_NOTHING.fullmatch(line)]


def _authors_answer(cells: tuple[BundledCell, ...]) -> str:
    for cell in cells:
        if "answer" in cell.metadata.get("tags", []):
            return cell.full
        if not is_authors(cell.metadata):
            break
    return ""


def _hidden_parts(text: str, visible: str, mark: str) -> Iterator[HiddenPart]:
    """Yield the parts of a text that were not released; a line with the mark begins a new part."""
    lines = text.split("\n")
    shown = _certainly_shown(lines, visible.split("\n")) if visible != text else range(len(lines))
    parts: list[list[int]] = []
    for number in sorted(set(range(len(lines))) - set(shown)):
        if parts and parts[-1][-1] == number - 1 and not (mark and mark in lines[number]):
            parts[-1].append(number)
        else:
            parts.append([number])
    for part in parts:
        name = lines[part[0]].partition(mark)[2].strip(" #:") if mark else ""
        yield HiddenPart(part[0] + 1, part[-1] + 1, name)


def _certainly_shown(lines: list[str], shown: list[str]) -> set[int]:
    """Return the numbers of the lines that were released, whichever of several equal lines a preprocessor removed.

    A line is certainly shown if the search from the start and the search from the end find it at the same place.
    """
    first = _found(lines, shown)
    last = [len(lines) - 1 - number for number in reversed(_found(lines[::-1], shown[::-1]))]
    return {before for before, after in zip(first, last, strict=True) if before == after}


def _found(lines: list[str], wanted: list[str]) -> list[int]:
    """Return the indices of the wanted lines, in order; [] if some are missing."""
    numbers: list[int] = []
    for line in wanted:
        start = numbers[-1] + 1 if numbers else 0
        if line not in lines[start:]:
            return []
        numbers.append(lines.index(line, start))
    return numbers
