"""The teacher's source notebook: which cells are graded, by whom, and which cells define the names that tests use."""

from __future__ import annotations

import ast
import builtins
import hashlib
from pathlib import Path
from typing import Literal, NamedTuple

from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.preprocessors import ClearHiddenTests

from autograder.course.author_cells import AUTHOR_TAGS
from autograder.course.canonical import read
from autograder.course.nbgrader_release import KeepStubs
from autograder.errors import InputError
from autograder.grade.sandbox.warmup import late_modules
from autograder.grade.submission.cell_analysis import bound_names, definitions, statements, used_names

Kind = Literal["test", "manual", "answer", "task", "teacher", "text"]


class SourceError(InputError):
    """The source notebook cannot be used for grading; the message names the cell and says what to do."""


class SourceCell(NamedTuple):
    """One cell of the source.

    Attributes:
        id: nbgrader's grade_id, "" for a cell that nbgrader does not know.
        kind: "test" is graded by running it, "manual" and "task" by a person, "answer" is the learner's, "teacher" is other
            code, "text" other text.
        text: includes hidden tests; of an answer, what was released.
        visible: the text that was released.
        points: the maximum; 0 for a cell that is not graded.
        cell: as nbgrader would release it, but with hidden tests; its metadata decide points.
    """

    id: str
    kind: Kind
    text: str
    visible: str
    points: float
    cell: NotebookNode

    @property
    def hides(self) -> bool:
        """Whether learners see only part of the text."""
        return self.visible != self.text


class _Binder(NamedTuple):
    """The names that a cell of the source defines.

    Attributes:
        position: of the cell in the source.
        names: what it defines.
        cell: the teacher's code to run for them; None for an answer, where the learner has to define them.
    """

    position: int
    names: set[str]
    cell: SourceCell | None


class AssignmentSource:
    """A source notebook.

    Attributes:
        name: nbgrader's notebook id, which is the file's name without its suffix.
        cells: all cells but the author's.
        by_id: the cells that nbgrader knows, by grade_id.
        digest: a hash of everything in the notebook that decides a grade.
        late_modules: what the cells will make PyTorch import.
    """

    def __init__(self, name: str, notebook: NotebookNode) -> None:
        self.name, self.metadata = name, notebook.metadata
        kept = [cell for cell in notebook.cells if not set(AUTHOR_TAGS) & set(cell.metadata.get("tags", []))]
        self.cells = [_source_cell(cell) for cell in kept]
        self.by_id = {cell.id: cell for cell in self.cells if cell.id}
        self.digest = hashlib.sha256(repr([(c.id, c.kind, c.text, c.points) for c in self.cells]).encode()).hexdigest()
        self._binders = [
            binder
            for index, (cell, original) in enumerate(zip(self.cells, kept, strict=True))
            for binder in _binders(index, cell, original.source)
        ]
        self._alone: dict[str, bool] = {}
        self.late_modules = late_modules(cell.text for cell in self.cells if cell.cell.cell_type == "code")
        self._answers = {name for binder in self._binders if binder.cell is None for name in binder.names}

    @classmethod
    def read(cls, path: Path) -> AssignmentSource:
        """Reads the source at a path.

        Raises:
            NotebookError: the file is not a notebook.
            SourceError: a cell cannot be graded.
        """
        return cls(path.stem, read(path))

    @property
    def graded(self) -> list[SourceCell]:
        """The cells that give points, in order."""
        return [cell for cell in self.cells if cell.kind in ("test", "manual", "task")]

    def provider(self, name: str, before: SourceCell) -> SourceCell | None:
        """Returns the teacher's cell that defines a name for the test `before`; None if the learner has to define it."""
        position = self.cells.index(before)
        binders = [binder for binder in self._binders if binder.position < position and name in binder.names]
        return binders[-1].cell if binders else None

    def stands_alone(self, cell: SourceCell) -> bool:
        """Returns whether no later test uses a name that this test binds, so that only its result matters."""
        if cell.id not in self._alone:
            later = self.cells[self.cells.index(cell) + 1 :]
            bound_here = _names(statements(cell.text))
            self._alone[cell.id] = not any(
                bound_here & used_names(other.text) for other in later if other.kind == "test"
            )
        return self._alone[cell.id]

    def needs(self, cell: SourceCell) -> set[str]:
        """Returns the names that a cell uses, without builtins that no answer redefines."""
        return used_names(cell.text) - (set(dir(builtins)) - self._answers)

    def for_learners(self, cell: SourceCell) -> str:
        """Returns the part of a test cell that the learner's process may run: the definitions in its visible part."""
        return definitions(cell.visible)


def _binders(index: int, cell: SourceCell, original: str) -> list[_Binder]:
    """Returns the names that a cell defines. `original` includes the model solution, which the released text may lack."""
    if cell.kind not in ("teacher", "answer"):
        return []
    parts = statements(original)
    if cell.kind == "teacher":
        return [_Binder(index, _names(parts), cell)]
    # A test may use what the model solution imports: that is the teacher's text, and a module cannot be sent.
    imports: list[ast.stmt] = [part for part in parts if isinstance(part, (ast.Import, ast.ImportFrom))]
    others = [part for part in parts if part not in imports]
    imported = cell._replace(id="", kind="teacher", text=ast.unparse(ast.Module(imports, [])))
    return [_Binder(index, _names(others), None), _Binder(index, _names(imports), imported)]


def _names(parts: list[ast.stmt]) -> set[str]:
    return {name for part in parts for name in bound_names(part)}


def _source_cell(cell: NotebookNode) -> SourceCell:
    known = cell.metadata.get("nbgrader", {})
    released = _released(cell) if utils.is_solution(cell) else cell
    visible = _without_hidden_tests(released)
    kind = _kind(cell)
    if kind == "test" and "AUTOTEST" in cell.source:
        raise SourceError(
            f"the cell {known['grade_id']!r} has AUTOTEST lines, which only `nbgrader generate_assignment` can turn into tests. "
            f"Write the tests out, or grade with `nbgrader autograde`."
        )
    if known.get("grade_id"):
        known["checksum"] = utils.compute_checksum(released)
    points = float(known.get("points") or 0) if kind in ("test", "manual", "task") else 0.0
    return SourceCell(known.get("grade_id", ""), kind, released.source, visible, points, released)


def _kind(cell: NotebookNode) -> Kind:
    if utils.is_task(cell):
        return "task"
    if utils.is_grade(cell):
        return "manual" if utils.is_solution(cell) or cell.cell_type != "code" else "test"
    if utils.is_solution(cell):
        return "answer"
    return "teacher" if cell.cell_type == "code" else "text"


def _released(cell: NotebookNode) -> NotebookNode:
    copy = NotebookNode(cell | {"metadata": NotebookNode(cell.metadata)})
    cleared, _ = KeepStubs().preprocess_cell(copy, {"language": "python"}, 0)
    return cleared


def _without_hidden_tests(cell: NotebookNode) -> str:
    copy = NotebookNode(cell)
    ClearHiddenTests()._remove_hidden_test_region(copy)  # nbgrader 0.9.6 has no public name for it
    return copy.source
