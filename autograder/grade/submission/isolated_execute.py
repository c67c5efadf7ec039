"""nbgrader's own `autograde` with isolated execution: for any nbgrader notebook in Python, from nbgrader's own commands.

    c.Autograde.autograde_preprocessors = isolated(Autograde.autograde_preprocessors.default_args[0])

The tests run beside the answers, as in nbgrader, so a submission can forge its own points (`SECURITY.md`); it reaches nothing
else.
"""

from __future__ import annotations

import atexit
import functools
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.preprocessors import Execute, NbGraderPreprocessor
from traitlets import Enum

from autograder.grade.clean.drawn_recordings import Drawings
from autograder.grade.clean.harmless_cells import harmless_cell
from autograder.grade.sandbox.isolation.levels import LEVELS, STRONGEST, require_level
from autograder.grade.submission.connection.received_outputs import ended_output, received_outputs
from autograder.grade.submission.connection.server_client import ServerClient
from autograder.grade.submission.connection.worker_client import WorkerClient, WorkerEnded
from autograder.grade.submission.submitted_files import attachments
from autograder.grade.wire import messages
from autograder.grade.wire.limits import Limits


class IsolatedExecute(Execute):
    """Runs a notebook's cells in an isolated worker. Of the settings of nbgrader's Execute (0.9.6), `timeout` is used."""

    level = Enum(tuple(LEVELS), STRONGEST, help="The isolation level; on a machine without it, nothing is run.").tag(
        config=True
    )

    def preprocess(self, nb: NotebookNode, resources: Any, km: Any = None) -> tuple[NotebookNode, Any]:
        """Returns the notebook with the outputs of its cells.

        Raises:
            IsolationError: the machine does not reach the level.
        """
        limits = Limits(cell_seconds=float(self.timeout or Limits().submission_seconds))
        folder = Path(resources.get("metadata", {}).get("path") or ".")
        files, _ = attachments(folder, limits)
        ended = ""
        with _server(self.level, limits).worker(files) as worker:
            for number, cell in enumerate((cell for cell in nb.cells if cell.cell_type == "code"), 1):
                cell.execution_count = number
                ended = ended or _run(worker, cell)
                if ended and not cell.outputs:
                    cell.outputs = [ended_output(ended)]  # a test without any output would give full marks
        return nb, resources


class HarmlessNotebook(NbGraderPreprocessor):
    """Cleans a graded notebook before nbgrader stores it, because formgrader shows its outputs and texts as they are."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Returns the notebook with harmless outputs and, in the cells that a student may change, harmless texts."""
        drawings = Drawings()
        nb.cells = [
            harmless_cell(cell, drawings, released=cell if utils.is_locked(cell) else None) for cell in nb.cells
        ]
        return nb, resources


def isolated(preprocessors: list[type]) -> list[type]:
    """Returns nbgrader's preprocessors with the isolated execution instead of its own, and a harmless notebook at the end."""
    return [*(IsolatedExecute if one is Execute else one for one in preprocessors), HarmlessNotebook]


def _run(worker: WorkerClient, cell: NotebookNode) -> str:
    """Runs a cell and returns why the program ended in it, "" if it did not."""
    try:
        answer = worker.ask(messages.RunCell(cell.source), messages.CellRan)
        cell.outputs = received_outputs(answer.outputs, worker.received)
    except WorkerEnded as error:
        return str(error)
    except KeyError as error:
        cell.outputs = [ended_output(str(error))]
    return ""


@functools.cache
def _server(level: str, limits: Limits) -> ServerClient:
    """Returns a warm server that lives as long as this process, because nbgrader makes a new preprocessor for each notebook."""
    server = ServerClient(require_level(level), limits)
    atexit.register(server.close)
    return server
