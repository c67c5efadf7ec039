"""A rehearsal as lines for a teacher: a table of the tests, and below it what to look at."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from autograder.grade.rehearsal.play.class_play import ClassPlay
from autograder.grade.rehearsal.play.played_class import sentences
from autograder.grade.rehearsal.rehearsal import Rehearsal
from autograder.printable import printable

PROCESSES = {"two": "two processes", "one": "one process", "nobody": "marks nobody"}


def print_rehearsal(rehearsal: Rehearsal, play: ClassPlay | None = None) -> None:
    """Writes the table, what needs a look, and what a played class got to standard output."""
    console = Console()
    console.print(as_table(rehearsal), highlight=False)
    for remark in [*rehearsal.remarks, *(sentences(play) if play else ())]:
        console.print(Text(printable(remark)), highlight=False, soft_wrap=True)


def as_table(rehearsal: Rehearsal) -> Table:
    """Returns a table with a line for each test."""
    table = Table(title=Text(printable(rehearsal.notebook)), box=None, pad_edge=False, title_justify="left")
    table.add_column("test", overflow="fold")
    for heading in ("points", "model answers", "as handed out", "judged in"):
        table.add_column(heading)
    for cell in rehearsal.cells:
        points = [_number(cell.max_points), _number(cell.model), _number(cell.untouched)]
        table.add_row(Text(printable(cell.id)), *points, PROCESSES[cell.process])
    return table


def announcement(rehearsals: list[Rehearsal]) -> list[str]:
    """Returns the lines to print before the first student's work is opened; none if there is nothing to look at."""
    return [printable(f"{one.notebook}, {remark}") for one in rehearsals for remark in one.remarks]


def _number(points: float | None) -> str:
    return "-" if points is None else f"{points:g}"
