"""A verdict in a student's notebook, whose lines wrap at the width of the pane; elsewhere, the wrapped text."""

from __future__ import annotations

import html
import re
from typing import NamedTuple

from IPython.display import display

from autograder.check.answer_cell import judged_run
from autograder.check.events import is_learners_notebook
from autograder.check.message import LABEL_COLUMNS, Unsolved
from autograder.locale.line_breaks import join_lines

# JupyterLab's theme (4.6) sets the font of printed text; an exported page has no theme.
FONT = "font-family: var(--jp-code-font-family, monospace); font-size: var(--jp-code-font-size, 13px)"
BREAKS = "line-height: 1.3; white-space: pre-wrap; overflow-wrap: anywhere"
HANGING = f"padding-left: {LABEL_COLUMNS}ch; text-indent: {2 - LABEL_COLUMNS}ch"


class ShownMessage(NamedTuple):
    """The four lines of a verdict, as text and as HTML."""

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        rows = re.split(rf"\n(?! {{{LABEL_COLUMNS}}})", self.text)
        return f'<div style="{FONT}; {BREAKS}">{"".join(map(_row, rows))}</div>'


def show_first(wrong: Unsolved) -> None:
    """Show the message now, above a picture; the notebook then shows only the verdict below the picture."""
    wrong.judged = judged_run(wrong.exercise)
    display(ShownMessage(wrong.told)) if is_learners_notebook() else print(wrong)
    wrong.printed = True


def _row(row: str) -> str:
    """Return one of the four lines, unwrapped, as an HTML element."""
    style = f' style="{HANGING}"' if row.startswith("  ") else ""
    return f"<div{style}>{html.escape(join_lines(row.splitlines()))}</div>"
