"""The teacher's source notebook: which cells are graded, by whom, and what lies beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from nbformat import NotebookNode

from autograder.course.author_cells import AUTHOR_TAGS
from autograder.course.canonical import read
from autograder.grade.sandbox.warmup import late_modules
from autograder.grade.submission.cell_analysis import definitions
from autograder.grade.submission.stand_ins.source_facts import SourceFacts
from autograder.grade.submission.teacher.setup_cells import SetupCells
from autograder.grade.submission.teacher.source_cells import SourceCell, SourceError, source_cell
from autograder.grade.submission.teacher.teacher_files import files_beside, files_digest

__all__ = ["AssignmentSource", "SourceCell", "SourceError"]


class AssignmentSource:
    """A source notebook, and the files beside it.

    Attributes:
        name: nbgrader's notebook id, which is the file's name without its suffix.
        files: data files and helper modules beside the notebook, by relative path.
        cells: all cells but the author's.
        by_id: the cells that nbgrader knows, by grade_id.
        setup: which of the teacher's cells each test needs.
        digest: a hash of everything in the notebook and the files that decides a grade.
        facts: which modules are imported and which operators the classes have, in the model solution, too.
        late_modules: what the cells will make PyTorch import.
    """

    def __init__(self, name: str, notebook: NotebookNode, files: dict[str, bytes] | None = None) -> None:
        self.name, self.metadata, self.files = name, notebook.metadata, files or {}
        kept = [cell for cell in notebook.cells if not set(AUTHOR_TAGS) & set(cell.metadata.get("tags", []))]
        self.cells = [source_cell(cell) for cell in kept]
        self.by_id = {cell.id: cell for cell in self.cells if cell.id}
        # The model solution is hashed too: it decides which names are the learner's.
        deciding = [(cell.id, cell.kind, cell.text, cell.full, cell.points, cell.process) for cell in self.cells]
        self.digest = hashlib.sha256(repr([deciding, files_digest(self.files)]).encode()).hexdigest()
        self.setup = SetupCells(self.cells)
        code = [cell for cell in self.cells if cell.cell.cell_type == "code"]
        self.facts = SourceFacts.of(
            (cell.full for cell in code), (cell.full for cell in code if cell.kind in ("answer", "manual"))
        )
        self.late_modules = late_modules(cell.text for cell in code)

    @classmethod
    def read(cls, path: Path, files: dict[str, bytes] | None = None) -> AssignmentSource:
        """Reads the source at a path, and what lies in its folder unless `files` are given.

        Raises:
            NotebookError: the file is not a notebook.
            SourceError: a cell cannot be graded.
        """
        return cls(path.stem, read(path), files_beside(path.parent)[0] if files is None else files)

    @property
    def graded(self) -> list[SourceCell]:
        """The cells that give points, in order."""
        return [cell for cell in self.cells if cell.kind in ("test", "manual", "task")]

    @property
    def tests(self) -> list[SourceCell]:
        """The cells that are graded by running them, in order."""
        return [cell for cell in self.cells if cell.kind == "test"]

    def with_dependents(self, tests: Iterable[str]) -> frozenset[str]:
        """Returns the ids of these tests, and of all that use a name which one of them binds."""
        waiting, found = list(tests), set[str]()
        while waiting:
            found.add(name := waiting.pop())
            waiting += [cell.id for cell in self.setup.dependents(self.by_id[name]) if cell.id not in found]
        return frozenset(found)

    def for_learners(self, cell: SourceCell) -> str:
        """Returns the part of a test cell that the learner's process may run: the definitions in its visible part."""
        return definitions(cell.visible)
