"""How far a rehearsal is, on standard error: a bar in a terminal, and a line for each step elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from autograder.printable import printable

BETWEEN_LINES = 10  # steps of a long list; a file of progress is read, too


class RehearsalStep(NamedTuple):
    """One hand-in that is graded now.

    Attributes:
        notebook: the source's name.
        hand_in: says which it is, "model answers, two processes" or a mutant's edit.
        number: from 1.
        total: how many there are.
    """

    notebook: str
    hand_in: str
    number: int
    total: int


OnStep = Callable[[RehearsalStep], None]


def unseen(_: RehearsalStep) -> None:
    """Shows nothing."""


@contextlib.contextmanager
def shown_steps() -> Iterator[OnStep]:
    """Yields a function that shows a step."""
    console = Console(stderr=True)
    columns = (
        TextColumn("rehearsing"),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
    )
    # No thread may be running when processes are forked, so the bar is redrawn only when it moves.
    with Progress(
        *columns, console=console, auto_refresh=False, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=None)

        def show(step: RehearsalStep) -> None:
            what = printable(f"{step.notebook}: {step.hand_in}")
            if console.is_terminal:
                bar.update(task, description=what, completed=step.number, total=step.total, refresh=True)
            elif step.total <= BETWEEN_LINES or step.number % BETWEEN_LINES in (0, 1) or step.number == step.total:
                print(f"rehearsing {what} ({step.number} of {step.total})", file=sys.stderr, flush=True)

        yield show
