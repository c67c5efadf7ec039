"""`check NOTEBOOK`: run a student's notebook in a new kernel, and return the verdict of every grade cell."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL
from typing import Literal

import nbclient
from nbformat import NotebookNode
from nbgrader.utils import determine_grade, is_grade

from autograder.course.canonical import NotebookError, read
from autograder.locale.languages import VARIABLE, language

SECONDS_A_CELL = 60

Status = Literal["correct", "incorrect", "not attempted"]


@dataclass(frozen=True)
class ExerciseResult:
    """The verdict of one grade cell: the exercise's id, the points, and the message if it did not pass."""

    exercise: str
    status: Status
    points: float
    max_points: float
    message: str


def attempt(path: Path, progress: Callable[[int, int], None] = lambda cell, cells: None) -> list[ExerciseResult]:
    """Return the verdict of every grade cell, in the notebook's order; the file is not modified.

    Unsaved changes do not count. `progress` is called before each cell with its number, from 1, and the number of
    cells.

    Raises:
        NotebookError: the file is missing, is not a notebook, or has no grade cells.
    """
    notebook = read(path)
    cells = [cell for cell in notebook.cells if is_grade(cell) and cell.cell_type == "code"]
    if not cells:
        raise NotebookError.of(
            "attempt.no_grade_cells|{path} has no grade cells, so there is nothing to check. Name a lesson's notebook.",
            path=path,
        )
    client = nbclient.NotebookClient(
        notebook,
        timeout=SECONDS_A_CELL,
        allow_errors=True,
        on_cell_start=lambda cell, cell_index: progress(cell_index + 1, len(notebook.cells)),
        resources={"metadata": {"path": str(path.resolve().parent)}},
    )
    try:
        # The outputs arrive as messages; the kernel's own warnings (ipykernel 7: TCP, sockets that close late) do not matter here.
        client.execute(env=os.environ | {VARIABLE: language()}, stdout=DEVNULL, stderr=DEVNULL)
    except (nbclient.exceptions.CellTimeoutError, nbclient.exceptions.DeadKernelError) as error:
        reason = str(error).splitlines()[0]
        raise NotebookError.of(
            "attempt.not_finished|{path} did not finish: {reason}. Look for an infinite loop.", path=path, reason=reason
        ) from None
    return [_verdict(cell) for cell in cells]


def _verdict(cell: NotebookNode) -> ExerciseResult:
    points, max_points = determine_grade(cell)
    errors = [output for output in cell.outputs if output.output_type == "error"]
    name, message = (errors[0].ename, errors[0].evalue) if errors else ("", "")
    failure: Status = "not attempted" if name == "NotAttempted" else "incorrect"
    status = "correct" if points == max_points else failure
    return ExerciseResult(cell.metadata.nbgrader.grade_id, status, points or 0.0, max_points, message)
