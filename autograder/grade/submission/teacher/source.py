"""The teacher's source notebook: which cells are graded, by whom, and what lies beside it."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nbformat import NotebookNode

from autograder.course.author_cells import AUTHOR_TAGS
from autograder.course.canonical import read
from autograder.course.variants.declared_changes import NOTHING, DeclaredChanges, read_changes
from autograder.grade.sandbox.warmup import late_modules
from autograder.grade.submission.cell_analysis import definitions
from autograder.grade.submission.stand_ins.source_facts import SourceFacts
from autograder.grade.submission.teacher.setup_cells import SetupCells
from autograder.grade.submission.teacher.source_cells import SourceCell, SourceError, source_cell
from autograder.grade.submission.teacher.teacher_files import files_beside, files_digest

if TYPE_CHECKING:
    from autograder.grade.submission.teacher.autotests import AutotestRunner

__all__ = ["AssignmentSource", "SourceCell", "SourceError"]


class AssignmentSource:
    """A source notebook, and the files beside it.

    Attributes:
        name: nbgrader's notebook id, which is the file's name without its suffix.
        notebook: the notebook itself.
        files: data files and helper modules beside the notebook, by relative path.
        cells: all cells but the author's.
        by_id: the cells that nbgrader knows, by grade_id.
        setup: which of the teacher's cells each test needs.
        digest: a hash of everything in the notebook and the files that decides a grade.
        facts: which modules are imported and which operators the classes have, in the model solution, too.
        late_modules: what the cells will make PyTorch import.
        changes: what may differ between two students' notebooks.
        is_variant: whether one student got this notebook, or a group.
    """

    is_variant = False

    def __init__(
        self,
        name: str,
        notebook: NotebookNode,
        files: dict[str, bytes] | None = None,
        changes: DeclaredChanges = NOTHING,
    ) -> None:
        self.name, self.notebook, self.files, self.changes = name, notebook, files or {}, changes
        self.metadata = notebook.metadata
        self.cells = list(_cells(notebook))
        self.by_id = {cell.id: cell for cell in self.cells if cell.id}
        # The model solution is hashed too: it decides which names are the learner's.
        deciding = [(cell.id, cell.kind, cell.text, cell.full, cell.points, cell.process) for cell in self.cells]
        self.digest = hashlib.sha256(repr([deciding, files_digest(self.files)]).encode()).hexdigest()
        self.setup = SetupCells(self.cells)
        code = [cell for cell in self.cells if cell.cell.cell_type == "code"]
        answers = [cell.full for cell in code if cell.is_learners]
        given = [cell.full for cell in code if cell.kind == "teacher"]
        self.facts = SourceFacts.of((cell.full for cell in code), answers, given)
        self.late_modules = late_modules(cell.text for cell in code)

    @classmethod
    def read(cls, path: Path, autotests: AutotestRunner, files: dict[str, bytes] | None = None) -> AssignmentSource:
        """Reads the source at a path, and what lies in its folder unless `files` are given.

        Raises:
            NotebookError: the file is not a notebook.
            SourceError: a cell cannot be graded.
            VariantError: variants.toml beside the sources cannot be used.
            IsolationError: the source has AUTOTEST lines, and the server that runs its answers does not start.
        """
        files = files_beside(path.parent)[0] if files is None else files
        changes = read_changes(path.parents[1]).get(path.parent.name, NOTHING)
        return cls(path.stem, autotests.instantiate(read(path), path.parent, files), files, changes)

    def variant(self, seed: int) -> AssignmentSource:
        """Returns the source of the notebook that a student with this seed was handed."""
        from autograder.course.variants.variant import vary  # imports libcst, which few classes need

        own = AssignmentSource(self.name, vary(self.notebook, seed, self.changes), self.files)
        own.is_variant = True
        return own

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
        return self._with_all(tests, self.setup.dependents)

    def with_binders(self, tests: Iterable[str]) -> frozenset[str]:
        """Returns the ids of these tests, and of all that bind a name which one of them uses."""
        return self._with_all(tests, self.setup.binders)

    def _with_all(self, tests: Iterable[str], related: Callable[[SourceCell], list[SourceCell]]) -> frozenset[str]:
        waiting, found = list(tests), set[str]()
        while waiting:
            found.add(name := waiting.pop())
            waiting += [cell.id for cell in related(self.by_id[name]) if cell.id not in found]
        return frozenset(found)

    def has_model(self, test: SourceCell) -> bool:
        """Returns whether the source answers what a test asks: the cells between it and the test before all have a model answer."""
        before = self.cells[: self.cells.index(test)]
        since = itertools.takewhile(lambda cell: cell.kind != "test", reversed(before))
        return all(cell.has_model for cell in since if cell.is_learners and cell.cell.cell_type == "code")

    def for_learners(self, cell: SourceCell) -> str:
        """Returns the part of a test cell that the learner's process may run: the definitions in its visible part.

        What stands in for an answer does so from where the test says, and not before it.
        """
        return definitions(cell.visible, self.facts.answers)


def _cells(notebook: NotebookNode) -> Iterator[SourceCell]:
    """Yields the cells that are released. Of a program handed out for repair, the author's answer below it is the model."""
    for index, cell in enumerate(notebook.cells):
        tags = cell.metadata.get("tags", [])
        if set(AUTHOR_TAGS) & set(tags):
            continue
        own = source_cell(cell)
        yield own._replace(full=_authors_answer(notebook.cells[index + 1 :]) or own.full) if "stub" in tags else own


def _authors_answer(cells: list[NotebookNode]) -> str:
    for cell in cells:
        tags = cell.metadata.get("tags", [])
        if "answer" in tags:
            return cell.source
        if not set(AUTHOR_TAGS) & set(tags):
            break
    return ""
