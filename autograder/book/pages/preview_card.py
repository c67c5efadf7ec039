"""The preview image for links to a lesson: its title and its first question."""

from __future__ import annotations

import io
from typing import Any

from autograder.locale.line_breaks import columns
from autograder.tape.recording.verdict_types import OUTCOMES
from autograder.view.draw.plot_words import font_families

WIDTH, HEIGHT, DPI = 1200, 630, 100
"""The size in pixels, in the usual proportions of link previews."""

INK, SOFT, PAPER, LINE = "#1b1f24", "#57606a", "#ffffff", "#d3d9e0"
MOST_LINES = 9


def can_draw(words: str) -> bool:
    """Return whether this machine has fonts for a text; wide (East Asian) letters need special ones."""
    return columns(words) == len(words) or bool(font_families())


def preview_card(title: str, program: str, question: str) -> bytes:
    """Return a PNG of 1200 × 630 pixels.

    Args:
        title: the title of the lesson.
        program: source code, of which the first nine lines are shown; "" for no program.
        question: the text above the four outcomes; the image does not show the answer.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI, facecolor=PAPER)
    words: dict[str, Any] = {"family": ["DejaVu Sans", *font_families()]}
    code: dict[str, Any] = {"family": ["DejaVu Sans Mono", *font_families()]}
    figure.text(0.06, 0.86, title, size=34, weight="bold", color=INK, va="center", **words)
    lines = [line[:62] for line in program.splitlines()[:MOST_LINES]]
    figure.text(0.06, 0.76, "\n".join(lines), size=17, color=INK, va="top", linespacing=1.4, **code)
    figure.text(0.06, 0.17, question, size=20, color=SOFT, va="center", **words)
    for number, outcome in enumerate(OUTCOMES):
        box = {"boxstyle": "round,pad=0.45", "facecolor": PAPER, "edgecolor": LINE, "linewidth": 2}
        figure.text(0.065 + 0.225 * number, 0.075, outcome, size=17, color=INK, va="center", bbox=box, **code)
    written = io.BytesIO()
    figure.savefig(written, format="png", metadata={"Software": None})
    return written.getvalue()
