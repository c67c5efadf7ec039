"""Conversion of AUTOTEST lines to tests with nbgrader's own preprocessor; the model answers run in an isolated worker.

    ### AUTOTEST area(3)  ->  assert area(3) == 9, "value of area(3) is not correct"

The course's `autotests.yml` defines the conversion of a line
(nbgrader.readthedocs.io/en/stable/user_guide/autotest.html, nbgrader 0.9.6).
"""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from traitlets.config import Config

from autograder.course.author_cells import is_authors
from autograder.course.canonical import read
from autograder.course.variants.declared_changes import read_changes
from autograder.errors import InputError, UnfinishedError
from autograder.grade.nbgrader_adapter import AutotestsBy
from autograder.grade.sandbox.isolation import IsolationError, IsolationLevel
from autograder.grade.submission.server_client import ServerClient, WorkerClient
from autograder.grade.submission.teacher.release_steps import SILENT, CourseRules, bundle_of
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.wire import messages
from autograder.grade.wire.limits import Limits

LONGEST_REASON = 300


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
                "Repair it; `nbgrader generate_assignment` stops there, too"
            ) from None

    def run_code(self, code: str) -> str | None:
        """Return the displayed value as text, None if nothing is displayed; raise UnfinishedError if the code raises."""
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
        rules = CourseRules(self._settings, self._course, folder, partial(self.instantiate, folder=folder, files=files))
        return bundle_of(path.stem, read(path), files, changes, rules=rules)

    def instantiate(self, notebook: NotebookNode, folder: Path, files: dict[str, bytes]) -> NotebookNode:
        """Return a source notebook, which is modified, with tests instead of AUTOTEST lines; unchanged if it has no such lines.

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
            with self._server.worker(files) as runner.worker, contextlib.chdir(self._course):
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
