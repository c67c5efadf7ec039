"""The result of a batch as a table for people and as JSON for programs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from autograder.grade.batch.assignment import BatchProgress
from autograder.grade.batch.dry_run import MovedGrade
from autograder.grade.batch.student_row import StudentRow
from autograder.printable import printable


def as_json(rows: list[StudentRow]) -> str:
    """Returns one JSON object in ASCII: `version`, and `students` with points, reasons and seconds of every graded cell."""
    return json.dumps({"version": 1, "students": msgspec.to_builtins(rows)}, indent=2)


def as_table(rows: list[StudentRow]) -> Table:
    """Returns a table with a line for each student: the score, and what a teacher should know."""
    table = Table(box=None, pad_edge=False)
    for heading in ("student", "score", "of", "remarks"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        score = row.points if row.score is None else row.score
        table.add_row(*map(_text, (row.student, f"{score:g}", f"{row.max_points:g}", "; ".join(_remarks(row)))))
    return table


def look_here(rows: list[StudentRow]) -> list[str]:
    """Returns a line for each thing that a teacher has to look at: who, which notebook or cell, and why."""
    return [f"{printable(row.student)}, {printable(problem)}" for row in rows for problem in row.problems]


def print_report(rows: list[StudentRow]) -> None:
    """Writes the table, and below it what to look at, to standard output."""
    console = Console()
    console.print(as_table(rows), highlight=False)
    if lines := look_here(rows):
        console.print(Text("\nLook here:"))
        for line in lines:
            console.print(Text(f"  {line}"), soft_wrap=True)


def moved_as_json(moved: list[MovedGrade]) -> str:
    """Returns one JSON object in ASCII: `version`, and `moved` with the points before and after, and the reasons."""
    return json.dumps({"version": 1, "moved": msgspec.to_builtins(moved)}, indent=2)


def print_moved(moved: list[MovedGrade]) -> None:
    """Writes whose marks a run would move to standard output."""
    console = Console()
    if not moved:
        console.print(Text("No mark would move. Nothing was written."))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("student", "now", "then", "why"):
        table.add_column(heading, overflow="fold")
    for one in moved:
        before = "-" if one.before is None else f"{one.before:g}"
        table.add_row(*map(_text, (one.student, before, f"{one.after:g}", "; ".join(one.reasons))))
    console.print(table, highlight=False)
    console.print(Text(f"\n{len(moved)} marks would move. Nothing was written; without --dry-run they do."))


def _text(words: str) -> Text:
    # Never markup: rich would read "[/bold]" in a student's text as an instruction.
    return Text(printable(words) if words else "")


def _remarks(row: StudentRow) -> list[str]:
    """Returns what stands beside a student's score; where it is not the sum of the tests, why."""
    by_hand = 0.0 if row.score is None else row.score + row.late_penalty - row.points
    return [
        *([f"{row.points:g} by the tests and {by_hand:+g} by a person"] if by_hand else []),
        *([f"{-row.late_penalty:g} because it was late"] if row.late_penalty else []),
        *([f"{row.waiting} to be graded by a person"] if row.waiting else []),
        *(["excused"] if row.excused else []),
        *row.notes,
        *(["unchanged"] if row.unchanged else []),
    ]


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
