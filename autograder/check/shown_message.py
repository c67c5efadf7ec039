"""A verdict in a student's notebook, as a card that wraps at the width of the pane; elsewhere, as text."""

from __future__ import annotations

import html
import os

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

    The color is that of the mark, the verdict and the left edge; `detail` is the rest of the sentence, without
    emphasis.
    """
    head = f'<span style="color: {color}; font-weight: 600">{mark} {html.escape(verdict)}</span>{html.escape(detail)}'
    shown = "".join(
        f'<div style="{ROW}"><span style="{LABEL}">{html.escape(label)} </span>{html.escape(text)}</div>'
        for label, text in rows
    )
    return f'<div style="{CARD}; border-left: 4px solid {color}"><div>{head}</div>{shown}</div>'


def show_card(text: str, rich: str, kind: str = "text/html") -> None:
    """Show a text; in a student's notebook, show it as HTML, or as another MIME type."""
    if is_learners_notebook():
        display({"text/plain": text, kind: rich}, raw=True)
    else:
        print(text)


def message_card(text: str, mark: str = "✗", color: str = RED) -> str:
    """Return the card for the four lines of a message."""
    verdict, *rows = split_rows(text)
    labeled = (row.strip().partition("  ") for row in rows)
    return card(mark, color, verdict, [(label, row.strip()) for label, _, row in labeled])


def show_first(wrong: Unsolved, mark: str = "") -> None:
    """Show the message now, above a picture; the exception then repeats at most the verdict.

    `mark` is the sign of a message that does not report an error; "" for that of its kind.
    """
    wrong.judged = judged_run(wrong.exercise)
    is_error = isinstance(wrong, Incorrect) and not mark
    text, look = wrong.whole_text, ("✗", RED) if is_error else (mark or "○", "currentcolor")
    show_card(text, message_card(text, *look))
    if is_learners_notebook():
        wrong.text_below_card = translated("{exercise}: see the message above", exercise=wrong.exercise)
    wrong.printed = True
