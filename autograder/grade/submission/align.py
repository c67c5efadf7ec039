"""Alignment of a submission's cells with the source's, and restoration of the teacher's cells."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable

import msgspec
from nbformat import NotebookNode

from autograder.course.glossary_links import LINK
from autograder.grade.submission.submitted_files import new_cell
from autograder.grade.submission.teacher.source import AssignmentSource, SourceCell
from autograder.locale.languages import language
from autograder.locale.notebook_translation import markdown_in_language

PUT_BACK = "this cell was missing from the submission"
RESTORED = ("test", "manual", "task", "answer")
"""The kinds of cells that are restored although students may change them."""
LONGEST_ANSWER = 100_000
"""The maximum number of characters of an answer that is gathered from cells which the student added."""


AlignedCell = tuple[NotebookNode, SourceCell | None]
"""A cell of the graded notebook, and the source's with the same id; None for a cell that the student added."""


def align(source: AssignmentSource, cells: list[NotebookNode]) -> list[AlignedCell]:
    """Return the submission's cells in their order, with everything that determines points taken from the source.

    Tests and locked cells get the source's text, and answers keep the student's; types, points and ids are the
    source's. If a cell occurs twice, the last one counts, as in nbgrader (0.9.6, `DeduplicateIds`). A cell without an
    id is matched to a missing cell of the source with the same text, if there is exactly one. A graded or locked cell
    or an answer that is missing is inserted before the next cell of the source that is present, so that the student's
    own cells before it have run.

    An answer may have been written into another cell. It is then matched to the student's cell in its place. Otherwise,
    an answer that is graded manually gets the text of the cells that the student added, so that the grader sees it, and
    an answer for tests is empty, since the released text could replace a definition elsewhere.
    """
    return _Alignment(source, cells).aligned()


class _Alignment:
    """The places of the source's cells in one submission."""

    def __init__(self, source: AssignmentSource, cells: list[NotebookNode]) -> None:
        self._source, self._cells = source, cells
        self._places = _places(source, cells)
        taken = set(self._places.values())
        self._added = [n for n, cell in enumerate(cells) if n not in taken and cell.source.strip()]
        self._missing: dict[int, list[int]] = defaultdict(list)
        for position, cell in enumerate(source.cells):
            if position not in self._places and cell.id and (cell.is_locked or cell.kind in RESTORED):
                later = (self._places[n] for n in range(position + 1, len(source.cells)) if n in self._places)
                self._missing[next(later, len(cells))].append(position)

    def aligned(self) -> list[AlignedCell]:
        for place, missing in self._missing.items():
            for kind in ("manual", "answer"):
                answers = [n for n in missing if (answer := self._source.cells[n]).kind == kind and answer.is_answer]
                self._match_added_cells(place, answers)
        at = {place: self._source.cells[position] for position, place in self._places.items()}
        aligned: list[AlignedCell] = []
        for place in range(len(self._cells) + 1):
            aligned += [self._put_back(n, place) for n in self._missing[place] if n not in self._places]
            if place < len(self._cells):
                source_cell = at[place] if place in at and at[place].id else None
                cell = _restored(self._cells[place], source_cell, self._text_below(place, source_cell))
                aligned.append((cell, source_cell))
        return aligned

    def _match_added_cells(self, place: int, answers: list[int]) -> None:
        """Match the cells that the student added before a place to the missing answers, if their numbers and types agree."""
        kinds = [self._source.cells[position].cell.cell_type for position in answers]
        before = [n for n in self._added_before(place) if self._cells[n].cell_type in kinds]
        if kinds == [self._cells[n].cell_type for n in before]:
            self._places |= dict(zip(answers, before, strict=True))
            self._added = [n for n in self._added if n not in before]

    def _added_before(self, place: int) -> list[int]:
        taken = set(self._places.values())
        start = next((n + 1 for n in range(place - 1, -1, -1) if n in taken), 0)
        return [n for n in self._added if start <= n < place]

    def _put_back(self, position: int, place: int) -> AlignedCell:
        source_cell = self._source.cells[position]
        text = "" if source_cell.kind == "answer" else None
        if source_cell.kind == "manual" and source_cell.is_answer:
            alike = [n for n in self._added if self._cells[n].cell_type in (source_cell.cell.cell_type, "raw")]
            text = self._gathered(self._added_before(place) or alike, source_cell)
        cell = _restored(source_cell.cell, source_cell, text)
        cell.metadata.setdefault("autograder", NotebookNode())["put_back"] = True
        return cell, source_cell

    def _text_below(self, place: int, source_cell: SourceCell | None) -> str | None:
        """Return the student's text below an unchanged written answer; None if there is no such text."""
        if source_cell is None or source_cell.kind != "manual" or source_cell.is_locked:
            return None
        if source_cell.cell.cell_type == "code" or self._cells[place].source.strip() != _in_students_language(
            source_cell
        ):
            return None
        taken = {*self._places.values(), len(self._cells)}
        end = next(n for n in range(place + 1, len(self._cells) + 1) if n in taken)
        below = (n for n in self._added if place < n < end and self._cells[n].cell_type != "code")
        return self._gathered(below, source_cell)

    def _gathered(self, places: Iterable[int], source_cell: SourceCell) -> str | None:
        text = "\n\n".join(self._cells[n].source for n in places)[:LONGEST_ANSWER]
        if text and source_cell.cell.cell_type == "code":  # the student's own code cells run in their places
            return "\n".join(f"# {line}" for line in text.split("\n"))
        return text or None


def _places(source: AssignmentSource, cells: list[NotebookNode]) -> dict[int, int]:
    """Return the place of each cell of the source that is present in a submission."""
    last = {_id(cell): place for place, cell in enumerate(cells) if _id(cell) in source.by_id}
    positions = {position: last[cell.id] for position, cell in enumerate(source.cells) if cell.id in last}
    wanted: dict[tuple[str, str], list[int]] = defaultdict(list)
    for position, source_cell in enumerate(source.cells):
        if position not in positions and (text := _unlinked(_in_students_language(source_cell))):
            wanted[source_cell.cell.cell_type, text].append(position)
    there: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, cell in enumerate(cells):
        if _id(cell) not in source.by_id:
            there[cell.cell_type, _unlinked(cell.source.strip())].append(place)
    return positions | {
        wanted[key][0]: places[0] for key, places in there.items() if len(places) == 1 == len(wanted.get(key, ()))
    }


def _in_students_language(cell: SourceCell) -> str:
    if cell.cell.cell_type == "code" or language() == "en":
        return cell.visible.strip()
    return markdown_in_language(cell.visible, language()).strip()


def _unlinked(text: str) -> str:
    """Return a text without links to the glossary, which a release contains but its source does not."""
    return LINK.sub(r"\1", text)


def _id(cell: NotebookNode) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def _restored(cell: NotebookNode, source_cell: SourceCell | None, text: str | None = None) -> NotebookNode:
    """Return a new cell; the teacher's parts of it come from the source, and `text` replaces an answer."""
    locked = source_cell is not None and source_cell.is_locked
    kind = source_cell.cell.cell_type if source_cell else cell.cell_type
    content = source_cell.text if source_cell and locked else cell.source if text is None else text
    # formgrader and feedback show links to other files as raw Markdown
    restored = new_cell(kind, _unlinked(content) if kind == "markdown" else content)
    if "attachments" in cell:
        restored["attachments"] = cell.attachments
    if source_cell:
        restored.metadata["nbgrader"] = copy.deepcopy(source_cell.cell.metadata["nbgrader"])
    if source_cell and locked and source_cell.hidden:
        restored.metadata["autograder"] = NotebookNode(hidden_parts=list(msgspec.to_builtins(source_cell.hidden)))
    return restored
