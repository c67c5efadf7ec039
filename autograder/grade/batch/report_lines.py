"""The result of a batch as a table for people and as JSON for programs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from autograder.grade.batch.assignment import BatchProgress, StudentRow


def as_json(rows: list[StudentRow]) -> str:
    """Returns one JSON object: `version`, and `students` with points, reasons and seconds of every graded cell."""
    return msgspec.json.format(msgspec.json.encode({"version": 1, "students": rows})).decode()


def as_table(rows: list[StudentRow]) -> Table:
    """Returns a table with a line for each student: points, and what a teacher should know."""
    table = Table("student", "points", "of", "remarks", box=None, pad_edge=False)
    for row in rows:
        remarks = [*row.ended, *row.notes, *(["unchanged"] if row.unchanged else [])]
        waiting = sum(cell.points is None for cells in row.cells.values() for cell in cells.values())
        remarks += [f"{waiting} to be graded by a person"] if waiting else []
        table.add_row(row.student, f"{row.points:g}", f"{row.max_points:g}", "; ".join(remarks)[:200])
    return table


def print_table(rows: list[StudentRow]) -> None:
    """Writes the table to standard output."""
    Console().print(as_table(rows), highlight=False)


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[BatchProgress], None]]:
    """Yields a function that draws a batch's progress and the time left on standard error, if that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("grading"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # No thread may be running when the batch forks its processes, so the bar is redrawn only when it moves.
    with Progress(*columns, console=console, auto_refresh=False, disable=not console.is_terminal) as bar:
        task = bar.add_task("grading", total=None)

        def draw(progress: BatchProgress) -> None:
            bar.update(task, completed=progress.done, total=progress.total, refresh=True)

        yield draw
