"""The teacher's source notebook: the cells that are graded, the files next to it, and the plan by which its tests are judged."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from autograder.course.variants.declared_changes import NOTHING, DeclaredChanges
from autograder.errors import printable
from autograder.grade.submission.cell_analysis import bound_names, definitions, statements
from autograder.grade.submission.submitted_files import UnreadableSubmission, digest, plain_file, reason_of
from autograder.grade.submission.teacher.cell_kinds import CellKind, Kind, cell_kinds, with_dependents
from autograder.grade.submission.teacher.source_cells import BundledCell, SourceCell, source_cells, varied

IGNORED = [".ipynb_checkpoints", "*.pyc", "__pycache__", "*.ipynb"]  # nbgrader's own, and the sources themselves
LARGEST_FILE = 2**30  # bytes


def files_next_to_source(folder: Path) -> tuple[dict[str, bytes], list[str]]:
    """Return the files that a teacher hands out with the notebooks, and a note for each that is left out."""
    from nbgrader.utils import find_all_files  # imports all of nbgrader

    files: dict[str, bytes] = {}
    notes = []
    for path in map(Path, sorted(find_all_files(str(folder), IGNORED))):
        name = str(path.relative_to(folder))
        try:
            name.encode()
            files[name] = plain_file(path.resolve(), LARGEST_FILE)
        except (OSError, UnicodeEncodeError, UnreadableSubmission) as error:
            notes.append(f"{printable(name)}, next to the source, was left out: {reason_of(error)}")
    return files, notes


class AssignmentSource(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A source notebook, and the files next to it, as plain data, which can be sent to another process."""

    name: str  # nbgrader's notebook id, which is the file's name without its suffix
    metadata: dict[str, Any]  # the notebook's metadata
    bundled: tuple[BundledCell, ...]  # all cells that are graded or released, and the author's, which are not
    # data files and helper modules next to the notebook, by relative path; they replace a student's
    files: dict[str, bytes]
    student_files: dict[str, bytes]  # the teacher's versions of files that a student's replace
    changes: DeclaredChanges = NOTHING  # the declared differences between two students' notebooks
    # the course's `ClearHiddenTests.begin_test_delimeter`, which precedes the name of a hidden test
    hidden_mark: str = ""
    is_variant: bool = False  # whether the notebook was given only to one student or group

    def __post_init__(self) -> None:
        """Raise InputError if a cell cannot be graded."""
        _ = self.cells

    @cached_property
    def cells(self) -> list[SourceCell]:
        """The cells that are graded or released."""
        return list(source_cells(self.bundled, self.hidden_mark))

    @cached_property
    def by_id(self) -> dict[str, SourceCell]:
        """The cells that nbgrader knows."""
        return {cell.id: cell for cell in self.cells if cell.id}

    def variant(self, seed: int) -> AssignmentSource:
        """Return the source of the notebook that a student with this seed was given."""
        cells = varied(self.bundled, seed, self.changes)
        return msgspec.structs.replace(self, bundled=cells, is_variant=True)

    @cached_property
    def digest(self) -> str:
        """A hash of everything in the notebook and the files that affects a grade."""
        # The model solution is hashed too, because it determines the student's names.
        deciding = [
            (cell.id, cell.kind, cell.text, cell.visible, cell.full, cell.points, cell.process, cell.counts)
            for cell in self.cells
        ]
        files = [digest(b"", self.files), digest(b"", self.student_files)]
        return hashlib.sha256(repr([deciding, files]).encode()).hexdigest()

    @cached_property
    def kinds(self) -> dict[str, CellKind]:
        """The kind of each test, by its id, from the texts of the cells."""
        return cell_kinds(self.cells, self.student_files)

    @cached_property
    def answer_names(self) -> frozenset[str]:
        """The names that the model answers bind."""
        texts = [cell.full for cell in self.cells if cell.is_code_answer]
        return frozenset(name for text in texts for part in statements(text) for name in bound_names(part))

    @property
    def graded(self) -> list[SourceCell]:
        """The cells that give points, in order."""
        return [cell for cell in self.cells if cell.kind in ("test", "manual", "task")]

    @property
    def tests(self) -> list[SourceCell]:
        """The cells that are graded by running them, in order."""
        return [cell for cell in self.cells if cell.kind == "test"]

    def with_required_tests(self, tests: Iterable[str]) -> frozenset[str]:
        """Return the ids of these tests and of all tests that bind a name that one of them uses."""
        names = set(tests)
        for name in reversed(self.kinds):
            names |= self.kinds[name].uses_tests if name in names else frozenset()
        return frozenset(names)

    def answers_of(self, test: SourceCell) -> list[SourceCell]:
        """Return the cells of the answer before a test, up to another test; tests of one answer have the same cells."""
        before = reversed(self.cells[: self.cells.index(test)])
        answer = itertools.dropwhile(lambda cell: not cell.is_code_answer, before)
        since = itertools.takewhile(lambda cell: cell.kind != "test", answer)
        return [cell for cell in since if cell.is_code_answer]

    def has_model_answer(self, test: SourceCell) -> bool:
        """Return whether all cells of a test's answer have a model answer."""
        return all(cell.has_model_answer for cell in self.answers_of(test))

    def for_students(self, cell: SourceCell) -> str:
        """Return the part of a test cell that the student's process may run: the definitions in its visible part.

        Replacements for an answer are not included, because they take effect only from their place in the test.
        """
        return definitions(cell.visible, self.answer_names)


class GradingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The way in which the tests of one source are judged."""

    kinds: dict[str, Kind] = {}  # the kind of each test, by its id; a missing test is judged in process
    nobody: dict[str, str] = {}  # id of a test → the reason why a person has to grade it
    # whether a prediction earns its points by any outcome or value, because completion counts
    any_prediction: bool = False

    def in_process(self, source: AssignmentSource) -> frozenset[str]:
        """Return the ids of the tests that run in the submission's own process."""
        outside = {name for name, kind in self.kinds.items() if kind != "in process"}
        return frozenset(cell.id for cell in source.tests) - self.nobody.keys() - outside

    def with_unplanned(self, planned: Collection[str]) -> GradingPlan:
        """Return the plan in which each declarative cell that is not among the planned ones is judged as plain data."""
        unplanned = (name for name, kind in self.kinds.items() if kind == "declarative" and name not in planned)
        return msgspec.structs.replace(self, kinds=self.kinds | dict.fromkeys(unplanned, "plain data"))

    def moved_in_process(self, source: AssignmentSource, tests: frozenset[str]) -> GradingPlan:
        """Return the plan in which these tests, and all that use a name which one of them binds, are judged in process."""
        moved = with_dependents(source.kinds, tests)
        return msgspec.structs.replace(self, kinds=self.kinds | dict.fromkeys(moved, "in process"))


def plan_of_source(source: AssignmentSource, *, forbid_in_process: bool = False) -> GradingPlan:
    """Return the plan from a source's text and the metadata of its cells: `{"autograder": {"process": "one"}}`.

    With `forbid_in_process`, tests are judged in process only if the metadata request it.
    """
    plan = GradingPlan(kinds={cell.id: source.kinds[cell.id].kind for cell in source.tests})
    inside = frozenset(cell.id for cell in source.tests if cell.process == "one" or plan.kinds[cell.id] == "in process")
    refused = [
        cell.id for cell in source.tests if cell.process == "two" or (forbid_in_process and cell.process != "one")
    ]
    outside = {name: source.kinds[name].outside_kind for name in refused if plan.kinds[name] == "in process"}
    plan = plan.moved_in_process(source, inside - outside.keys())
    return msgspec.structs.replace(plan, kinds=plan.kinds | outside)


def plan_all_in_process(source: AssignmentSource) -> GradingPlan:
    """Return the plan of `--one-process`: every test runs in the process of the answers, as in nbgrader."""
    return GradingPlan(kinds={cell.id: "in process" for cell in source.tests})
