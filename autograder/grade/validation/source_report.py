"""The report on a source as lines for a teacher, and the progress of its validation on standard error."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from autograder.grade.validation.made_up_submissions import OnStep, ValidationStep
from autograder.grade.validation.validate import SourceReport
from autograder.printable import printable

if TYPE_CHECKING:
    from autograder.grade.validation.mutation_test import MutationReport

BETWEEN_LINES = 10  # of a long list, every tenth step is a line


def print_report(report: SourceReport, mutation: MutationReport | None = None) -> None:
    """Print the table, what the teacher should look at, and the result of a mutation test."""
    console = Console()
    console.print(as_table(report), highlight=False)
    for line in [*report.notes, *report.findings, *(mutation.lines if mutation else ())]:
        console.print(Text(printable(line)), highlight=False, soft_wrap=True)


def as_table(report: SourceReport) -> Table:
    """Return a table with a line for each test."""
    table = Table(title=Text(printable(report.notebook)), box=None, pad_edge=False, title_justify="left")
    table.add_column("test", overflow="fold")
    for heading in ("points", "model answers", "release", "judged"):
        table.add_column(heading)
    for cell in report.cells:
        points = ["-" if value is None else f"{value:g}" for value in (cell.max_points, cell.model, cell.release)]
        table.add_row(Text(printable(cell.id)), *points, cell.kind or "points to nobody")
    return table


def finding_lines(reports: list[SourceReport]) -> list[str]:
    """Return what the teacher should look at before the first submission is graded."""
    return [printable(f"{report.notebook}, {line}") for report in reports for line in report.findings]


def note_lines(reports: list[SourceReport]) -> list[str]:
    """Return what else the teacher may want to know."""
    return [printable(f"{report.notebook}, {line}") for report in reports for line in report.notes]


@contextlib.contextmanager
def shown_steps() -> Iterator[OnStep]:
    """Yield a function that shows a step: as a bar in a terminal, as a line elsewhere."""
    console = Console(stderr=True)
    columns = (
        TextColumn("validating"),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
    )
    # No thread may be running when processes are forked, so the bar is redrawn only when it moves.
    with Progress(
        *columns, console=console, auto_refresh=False, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=None)

        def show(step: ValidationStep) -> None:
            what = printable(f"{step.notebook}: {step.submission}")
            if console.is_terminal:
                bar.update(task, description=what, completed=step.number, total=step.total, refresh=True)
            elif step.total <= BETWEEN_LINES or step.number % BETWEEN_LINES in (0, 1) or step.number == step.total:
                print(f"validating {what} ({step.number} of {step.total})", file=sys.stderr, flush=True)

        yield show
