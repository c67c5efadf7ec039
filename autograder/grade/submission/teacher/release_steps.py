"""Conversion of a source as nbgrader would release it, with the course's own settings and preprocessors; no file is written."""

from __future__ import annotations

import contextlib
import copy
import itertools
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from nbformat import NotebookNode
from nbgrader.converters import Autograde
from nbgrader.nbgraderformat import SchemaTooOldError
from nbgrader.preprocessors import ClearHiddenTests, ClearSolutions, InstantiateTests, SaveCells
from nbgrader.utils import compute_checksum, is_solution
from traitlets.config import Config

from autograder.course.author_cells import is_authors
from autograder.course.nbgrader_release import configure
from autograder.course.variants.declared_changes import NOTHING, DeclaredChanges
from autograder.errors import InputError
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.submission.teacher.source_cells import BundledCell

NUMBER = "autograder_cell"
"""The metadata key that identifies a cell after a preprocessor; it is removed at the end."""

SILENT = logging.getLogger("autograder.release_steps")  # errors are raised
SILENT.setLevel(logging.CRITICAL + 1)

Cells = Mapping[int, NotebookNode]


@dataclass(frozen=True)
class CourseRules:
    """A course's settings for its sources."""

    settings: Config  # nbgrader's configuration
    root: Path = Path()  # the course's folder, to which the paths of header and footer are relative
    source: Path = Path()  # the folder of the assignment's source; its name is the assignment's
    # converts AUTOTEST lines to tests; None leaves them unchanged
    instantiate: Callable[[NotebookNode], NotebookNode] | None = None


@dataclass(frozen=True)
class _Stages:
    """The cells of a notebook at four stages, by number: as read, before solutions are cleared, in the gradebook, released."""

    read: Cells
    written: Cells
    known: Cells
    released: Cells


def bundle_of(
    name: str,
    notebook: NotebookNode,
    files: dict[str, bytes],
    changes: DeclaredChanges = NOTHING,
    *,
    rules: CourseRules,
) -> AssignmentSource:
    """Return a source with all files next to it; raise InputError if nbgrader would not release it, or a cell cannot be graded."""
    config = copy.deepcopy(rules.settings)
    configure(config)
    steps = [
        step(config=config, log=SILENT) if isinstance(step, type) else step
        for step in config.GenerateAssignment.preprocessors
    ]
    with contextlib.chdir(rules.root):
        stages = _stages(copy.deepcopy(notebook), name, steps, rules)
    excluded = excluded_files(config, rules.source.name)
    return AssignmentSource(
        name=name,
        metadata=notebook.metadata,
        bundled=tuple(_bundled(number, stages) for number in _order(stages)),
        files={path: data for path, data in files.items() if path not in excluded},
        student_files={path: data for path, data in files.items() if path in excluded},
        changes=changes,
        hidden_mark=next((step.begin_test_delimeter for step in steps if isinstance(step, ClearHiddenTests)), ""),
    )


def excluded_files(settings: Config, assignment: str) -> frozenset[str]:
    """Return the files next to a source that the student's files replace, by relative path (`Autograde.exclude_overwriting`)."""
    return frozenset(str(PurePath(name)) for name in Autograde(config=settings).exclude_overwriting.get(assignment, ()))


def _stages(notebook: NotebookNode, name: str, steps: Iterable[Any], rules: CourseRules) -> _Stages:
    number = itertools.count()

    def cells() -> Cells:
        for cell in notebook.cells:
            cell.metadata.setdefault(NUMBER, next(number))
        return {cell.metadata[NUMBER]: copy.deepcopy(cell) for cell in notebook.cells}

    resources = {
        "metadata": {"path": str(rules.source), "name": name},
        "nbgrader": {"notebook": name, "assignment": rules.source.name, "student": ".", "db_url": ""},
        "unique_key": name,
    }
    read, written, known = cells(), None, None
    for step in steps:
        if isinstance(step, SaveCells):  # writes the gradebook, so its text is graded
            known = cells()
        elif isinstance(step, InstantiateTests):
            notebook = rules.instantiate(notebook) if rules.instantiate and step.enabled else notebook
        else:
            written = cells() if isinstance(step, ClearSolutions) and written is None else written
            notebook, resources = _run_preprocessor(step, notebook, resources, name)
    if known is None:
        raise InputError(
            f"{name}: GenerateAssignment.preprocessors has no SaveCells, so nbgrader's gradebook gets no cell"
        )
    return _Stages(read, written or read, known, cells())


def _run_preprocessor(step: Any, notebook: NotebookNode, resources: Any, name: str) -> tuple[NotebookNode, Any]:
    """Return the result of a preprocessor for a notebook."""
    try:
        return step(notebook, resources)
    except InputError:
        raise
    except Exception as error:  # it may be the teacher's own, and raise anything
        reason: BaseException = error
        while reason.__context__ is not None:  # nbgrader converts most errors to a general one
            reason = reason.__context__
        said = " ".join(str(reason).split()) or type(reason).__name__
        step_name = getattr(step, "__name__", type(step).__name__)
        advice = ": run `nbgrader update .` in the course's folder" if isinstance(reason, SchemaTooOldError) else ""
        raise InputError(f"{name}.ipynb cannot be released: nbgrader's {step_name} says {said!r}{advice}") from None


def _order(stages: _Stages) -> list[int]:
    """Return the numbers of the cells that are graded, released or the author's, in the order of the notebook."""
    order: list[int] = []
    for cells in (stages.known, stages.released, stages.read):
        place = 0
        for number in cells:
            if number not in order:
                order.insert(place, number)
            place = order.index(number) + 1
    kept = {number for number, cell in stages.read.items() if is_authors(cell.metadata)}
    return [number for number in order if number in stages.known or number in stages.released or number in kept]


def _bundled(number: int, stages: _Stages) -> BundledCell:
    known, released = stages.known.get(number), stages.released.get(number)
    cell = known or released or stages.read[number]
    written = stages.written.get(number, cell) if is_solution(cell) else cell
    metadata = {key: value for key, value in cell.metadata.items() if key != NUMBER}
    if metadata.get("nbgrader", {}).get("grade_id"):
        metadata["nbgrader"]["checksum"] = compute_checksum(cell)
    authors = known is None and released is None
    return BundledCell(
        cell_type=cell.cell_type,
        metadata=metadata,
        attachments=cell.get("attachments"),
        full=written.source,
        text=cell.source,
        visible=cell.source if authors else released.source if released else "",
    )
