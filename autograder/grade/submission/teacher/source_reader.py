"""Reading of a source as nbgrader would release it, with the course's own settings and preprocessors; no file is written.

AUTOTEST lines become tests by nbgrader's own preprocessor; the model answers run in an isolated worker.

    ### AUTOTEST area(3)  ->  assert area(3) == 9, "value of area(3) is not correct"

The course's `autotests.yml` defines the conversion of a line
(nbgrader.readthedocs.io/en/stable/user_guide/autotest.html, nbgrader 0.9.6).
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from nbformat import NotebookNode
from nbgrader.converters import Autograde
from nbgrader.nbgraderformat import SchemaTooOldError
from nbgrader.preprocessors import ClearHiddenTests, ClearSolutions, InstantiateTests, SaveCells
from nbgrader.utils import compute_checksum, is_solution
from traitlets.config import Config

from autograder.course.author_cells import is_authors
from autograder.course.canonical import read
from autograder.course.nbgrader_release import configure
from autograder.course.variants.declared_changes import NOTHING, DeclaredChanges, read_changes
from autograder.errors import InputError, UnfinishedError
from autograder.grade.nbgrader_adapter import AutotestsBy
from autograder.grade.sandbox.isolation import IsolationError, IsolationLevel
from autograder.grade.submission.server_client import ServerClient, WorkerClient
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.submission.teacher.source_cells import BundledCell
from autograder.grade.wire import messages
from autograder.grade.wire.limits import Limits

LONGEST_REASON = 300
NUMBER = "autograder_cell"
"""The metadata key that identifies a cell after a preprocessor; it is removed at the end."""

SILENT = logging.getLogger("autograder.source_reader")  # errors are raised
SILENT.setLevel(logging.CRITICAL + 1)

Cells = Mapping[int, NotebookNode]


class IsolatedAutotests(AutotestsBy):
    """Runs the code of AUTOTEST lines in a worker."""

    worker: WorkerClient  # the worker, which also runs the source's cells

    def preprocess_cell(self, cell: NotebookNode, resources: Any, index: int) -> tuple[NotebookNode, Any]:
        """Run a cell, and return it with tests."""
        try:
            return super().preprocess_cell(cell, resources, index)
        except UnfinishedError as error:
            name = cell.metadata.get("nbgrader", {}).get("grade_id") or f"number {index + 1}"
            raise InputError(
                f"AUTOTEST lines are turned into tests by running the source, and its cell {name!r} ended with {error}. "
                "Fix it; `nbgrader generate_assignment` also stops there"
            ) from None

    def run_code(self, code: str) -> str | None:
        """Return the displayed value as text, None if nothing is displayed. Raise UnfinishedError if the code raises."""
        answer = self.worker.ask(messages.RunCell(code), messages.CellRan)
        shown = None
        for output in self.worker.outputs(answer):
            if output.output_type == "error":
                raise UnfinishedError(f"{output.ename}: {output.evalue}"[:LONGEST_REASON])
            if output.output_type != "stream":
                shown = output.data["text/plain"]
        return shown


class SourceReader(contextlib.AbstractContextManager["SourceReader"]):
    """Reads a course's sources, and converts their AUTOTEST lines to tests; a context manager.

    Its server starts when a notebook has such lines. The course's folder is searched for `autotests.yml` if the
    assignment's own folder does not have the file.
    """

    def __init__(self, level: IsolationLevel, limits: Limits, settings: Config, course: Path) -> None:
        self._server, self._settings, self._course = ServerClient(level, limits), settings, course.absolute()

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def read(self, path: Path, files: dict[str, bytes]) -> AssignmentSource:
        """Return the source at a path, with the other files of its folder.

        Raises:
            NotebookError: the file is not a notebook.
            InputError: nbgrader would not release it, or a cell cannot be graded.
            VariantError: variants.toml next to the sources cannot be used.
            IsolationError: the source has AUTOTEST lines, and the server that runs its answers does not start.
        """
        folder = path.parent.absolute()
        changes = read_changes(folder.parent, folder.name)
        instantiate = partial(self.instantiate, folder=folder, files=files)
        with contextlib.chdir(self._course):  # the paths of header and footer are relative to it
            return bundle_of(path.stem, read(path), files, self._settings, folder, changes, instantiate)

    def instantiate(self, notebook: NotebookNode, folder: Path, files: dict[str, bytes]) -> NotebookNode:
        """Return a source notebook with tests instead of its AUTOTEST lines, if it has any. The notebook itself is modified.

        Raises:
            InputError: the lines cannot be converted; the message gives the reason.
            IsolationError: the server does not start.
        """
        runner = IsolatedAutotests(config=self._settings, log=SILENT)
        if not any(runner.autotest_delimiter in cell.source for cell in notebook.cells if cell.cell_type == "code"):
            return notebook
        notebook.cells = [cell for cell in notebook.cells if not is_authors(cell.metadata)]
        resources = {"metadata": {"path": str(folder)}}
        try:
            with self._server.worker(files) as runner.worker:
                return runner.preprocess(notebook, resources)[0]
        except (InputError, IsolationError):
            raise
        except FileNotFoundError:
            raise InputError(
                f"the AUTOTEST lines need {runner.autotest_filename}: put it into {folder} or {self._course}"
            ) from None
        except Exception as error:  # whatever a template or a setting may do
            said = f"{type(error).__name__}: {error}"[:LONGEST_REASON]
            raise InputError(f"the AUTOTEST lines cannot be turned into tests ({said})") from None


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
    settings: Config,
    folder: Path = Path(),
    changes: DeclaredChanges = NOTHING,
    instantiate: Callable[[NotebookNode], NotebookNode] = lambda notebook: notebook,
) -> AssignmentSource:
    """Return a source with all files next to it. Raise InputError if nbgrader would not release it, or a cell cannot be graded.

    `folder` is the folder of the source, whose name is the assignment's; `instantiate` converts AUTOTEST lines to tests.
    """
    config = copy.deepcopy(settings)
    configure(config)
    steps = [
        step(config=config, log=SILENT) if isinstance(step, type) else step
        for step in config.GenerateAssignment.preprocessors
    ]
    stages = _stages(copy.deepcopy(notebook), name, steps, folder, instantiate)
    # The files that a student's replace.
    replaced = {str(PurePath(path)) for path in Autograde(config=config).exclude_overwriting.get(folder.name, ())}
    return AssignmentSource(
        name=name,
        metadata=notebook.metadata,
        bundled=tuple(_bundled(number, stages) for number in _order(stages)),
        files={path: data for path, data in files.items() if path not in replaced},
        student_files={path: data for path, data in files.items() if path in replaced},
        changes=changes,
        hidden_mark=next((step.begin_test_delimeter for step in steps if isinstance(step, ClearHiddenTests)), ""),
    )


def _stages(
    notebook: NotebookNode,
    name: str,
    steps: Iterable[Any],
    folder: Path,
    instantiate: Callable[[NotebookNode], NotebookNode],
) -> _Stages:
    number = itertools.count()

    def cells() -> Cells:
        for cell in notebook.cells:
            cell.metadata.setdefault(NUMBER, next(number))
        return {cell.metadata[NUMBER]: copy.deepcopy(cell) for cell in notebook.cells}

    resources = {
        "metadata": {"path": str(folder), "name": name},
        "nbgrader": {"notebook": name, "assignment": folder.name, "student": ".", "db_url": ""},
        "unique_key": name,
    }
    read, written, known = cells(), None, None
    for step in steps:
        if isinstance(step, SaveCells):  # writes the gradebook, so its text is graded
            known = cells()
        elif isinstance(step, InstantiateTests):
            notebook = instantiate(notebook) if step.enabled else notebook
        else:
            written = cells() if isinstance(step, ClearSolutions) and written is None else written
            notebook, resources = _run_preprocessor(step, notebook, resources, name)
    if known is None:
        raise InputError(
            f"{name}: GenerateAssignment.preprocessors has no SaveCells, so nbgrader's gradebook gets no cell"
        )
    return _Stages(read, written or read, known, cells())


def _run_preprocessor(step: Any, notebook: NotebookNode, resources: Any, name: str) -> tuple[NotebookNode, Any]:
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
    authors = {number for number, cell in stages.read.items() if is_authors(cell.metadata)}
    return [number for number in order if number in stages.known or number in stages.released or number in authors]


def _bundled(number: int, stages: _Stages) -> BundledCell:
    graded, released = stages.known.get(number), stages.released.get(number)
    cell = graded or released or stages.read[number]
    written = stages.written.get(number, cell) if is_solution(cell) else cell
    metadata = {key: value for key, value in cell.metadata.items() if key != NUMBER}
    if metadata.get("nbgrader", {}).get("grade_id"):
        metadata["nbgrader"]["checksum"] = compute_checksum(cell)
    authors = graded is None and released is None
    return BundledCell(
        cell_type=cell.cell_type,
        metadata=metadata,
        attachments=cell.get("attachments"),
        full=written.source,
        text=cell.source,
        visible=cell.source if authors else released.source if released else "",
    )
