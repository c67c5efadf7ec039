"""What happens when an exercise passes or fails: a line for a pass, a message of four lines, and a call to every listener."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from IPython.core.getipython import get_ipython
from IPython.display import display

from autograder.check.learner import LearnerNames
from autograder.check.message import LABEL_COLUMNS, VALIDATING, Unsolved
from autograder.check.plan import Plan, plan_or_compare
from autograder.locale.line_breaks import join_lines
from autograder.locale.translations import translated
from autograder.view import draws_here

# Of the greens of JupyterLab's themes (4.6) this one is at least 4.5 : 1 on the light and on the dark ground; an exported page
# has no theme, and a light ground.
GREEN = "color: var(--jp-success-color0, #1b5e20); font-weight: 600"
# Within a theme the font is that of JupyterLab's printed text (4.6); an exported page has no theme.
FONT = "font-family: var(--jp-code-font-family, monospace); font-size: var(--jp-code-font-size, 13px)"
BREAKS = "line-height: 1.3; white-space: pre-wrap; overflow-wrap: anywhere"
HANGING = f"padding-left: {LABEL_COLUMNS}ch; text-indent: {2 - LABEL_COLUMNS}ch"

_listeners: list[Callable[[str], None]] = []
_listeners_to_failures: list[Callable[[str, str], None]] = []


def on_pass(listener: Callable[[str], None]) -> None:
    """Calls `listener` with the exercise's id whenever a check passes from now on."""
    if listener not in _listeners:
        _listeners.append(listener)


def on_fail(listener: Callable[[str, str], None]) -> None:
    """Calls `listener` with the exercise's id and the choice whenever a wrong answer to it is refused from now on.

    The choice is the outcome or the value that was predicted, "" where the answer is a program.
    """
    if listener not in _listeners_to_failures:
        _listeners_to_failures.append(listener)


def failed(exercise: str, choice: str = "") -> None:
    """Tells the listeners that a wrong answer was refused."""
    for listener in _listeners_to_failures:
        listener(exercise, choice)


def passed(exercise: str, detail: str = "") -> None:
    """Show that the exercise is correct, and tell the listeners; a test cell calls it after its checks."""
    plan_or_compare(PassedPlan(exercise, detail))


@dataclass(frozen=True)
class PassedPlan(Plan):
    """The line that says that an exercise is correct; it asks nothing."""

    name: str
    detail: str = ""

    def compare(self, names: LearnerNames) -> None:
        """Show the line."""
        show_passed(self.name, self.detail)


def show_passed(exercise: str, detail: str = "") -> None:
    """Show that the exercise is correct, and tell the listeners."""
    line = Passed(exercise, detail)
    display(line) if is_learners_notebook() else print(repr(line))
    for listener in _listeners:
        listener(exercise)


def is_learners_notebook() -> bool:
    """Returns whether a learner looks on: not where nbgrader or the maker of a book executes the notebook, nor in a terminal."""
    executed = "NBGRADER_EXECUTION" in os.environ or VALIDATING in os.environ
    return not executed and draws_here() and not getattr(get_ipython(), "takes_recordings", False)


class Passed(NamedTuple):
    """The line that says that an exercise is correct, and what the check compared; green in a notebook."""

    exercise: str
    detail: str

    def __repr__(self) -> str:
        return f"{self.exercise}: {translated('correct')}{self.detail}"

    def _repr_html_(self) -> str:
        said = html.escape(f"{self.exercise}: {translated('correct')}")
        return f'<div><span style="{GREEN}">✓ {said}</span>{html.escape(self.detail)}</div>'


class ShownMessage(NamedTuple):
    """The four lines of a refusal, as text and as HTML."""

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        rows = re.split(rf"\n(?! {{{LABEL_COLUMNS}}})", self.text)
        return f'<div style="{FONT}; {BREAKS}">{"".join(map(_row, rows))}</div>'


def show_first(wrong: Unsolved) -> None:
    """Shows the message now, before a picture; the notebook then shows only the verdict below."""
    display(ShownMessage(str(wrong))) if is_learners_notebook() else print(wrong)
    wrong.printed = True


def _row(row: str) -> str:
    """Returns one of the lines, which was wrapped under its label, as an element of its own."""
    style = f' style="{HANGING}"' if row.startswith("  ") else ""
    return f"<div{style}>{html.escape(join_lines(row.splitlines()))}</div>"
