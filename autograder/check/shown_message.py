"""A verdict in a student's notebook, as a card that wraps at the width of the pane; elsewhere, as text."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass

from IPython.core.getipython import get_ipython
from IPython.display import display

from autograder.check.answer_cell import judged_run
from autograder.check.message import VALIDATING, Incorrect, Unsolved
from autograder.locale.line_breaks import split_rows
from autograder.locale.translations import translated
from autograder.view import draws_here

# The theme's colors and borders make a card readable on a light background and on a dark one; an exported page has no
# theme and a light background, for which the second values are used. On the backgrounds of JupyterLab's themes (4.6),
# these variables of green and red have a contrast of at least 4.5 : 1.
CARD = (
    "border: 1px solid var(--jp-border-color1, #bdbdbd); border-radius: 6px; padding: .4em 1.2em .6em; max-width: 46em; "
    "overflow-wrap: anywhere"
)
GREEN, RED = "var(--jp-success-color0, #1b5e20)", "var(--jp-error-color1, #b71c1c)"
FONT = "font-family: var(--jp-code-font-family, monospace); font-size: var(--jp-code-font-size, 13px)"
ROW = f"{FONT}; line-height: 1.4; white-space: pre-wrap; padding-left: 10ch; text-indent: -10ch; margin-top: .2em"
LABEL = "display: inline-block; width: 10ch; text-indent: 0; color: var(--jp-ui-font-color2, #616161)"


def is_learners_notebook() -> bool:
    """Return whether a student works in this notebook: not a terminal, nbgrader, or the builder of a book."""
    executed = "NBGRADER_EXECUTION" in os.environ or VALIDATING in os.environ
    return not executed and draws_here() and not getattr(get_ipython(), "takes_recordings", False)


def card(mark: str, color: str, verdict: str, rows: list[tuple[str, str]], detail: str = "") -> str:
    """Return a verdict as HTML; passed and refused answers look alike, except for the mark and the color.

    Args:
        mark: the sign before the verdict.
        color: the color of the mark, of the verdict and of the left edge.
        verdict: one sentence.
        rows: pairs of a label and a text.
        detail: the rest of the sentence, without emphasis.
    """
    head = f'<span style="color: {color}; font-weight: 600">{mark} {html.escape(verdict)}</span>{html.escape(detail)}'
    shown = "".join(
        f'<div style="{ROW}"><span style="{LABEL}">{html.escape(label)} </span>{html.escape(text)}</div>'
        for label, text in rows
    )
    return f'<div style="{CARD}; border-left: 4px solid {color}"><div>{head}</div>{shown}</div>'


@dataclass(frozen=True)
class ShownMessage:
    """The four lines of a verdict, as text and as a card.

    Attributes:
        text: the lines, as `message` returns them.
        mark: the sign before the verdict.
        color: the color of the verdict.
    """

    text: str
    mark: str = "✗"
    color: str = RED

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        verdict, *rows = split_rows(self.text)
        return card(self.mark, self.color, verdict, [_split(row) for row in rows])


def show_first(wrong: Unsolved, mark: str = "") -> None:
    """Show the message now, above a picture; the exception then repeats at most the verdict.

    Args:
        mark: the sign of a message that does not report an error; "" for that of its kind.
    """
    wrong.judged = judged_run(wrong.exercise)
    if is_learners_notebook():
        is_error = isinstance(wrong, Incorrect) and not mark
        display(ShownMessage(wrong.whole_text, *(("✗", RED) if is_error else (mark or "○", "currentcolor"))))
        wrong.text_below_card = translated("{exercise}: see the message above", exercise=wrong.exercise)
    else:
        print(wrong)
    wrong.printed = True


def show_in_notebook(wrong: Unsolved) -> None:
    """Show the message as a card in a student's notebook, unless it was shown above a picture."""
    if is_learners_notebook() and not wrong.printed:
        show_first(wrong)


def _split(row: str) -> tuple[str, str]:
    """Return the label of a row and its text."""
    label, _, text = row.strip().partition("  ")
    return label, text.strip()
