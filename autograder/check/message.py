"""Verdicts as a learner reads them: four lines, always raised as an exception.

nbgrader gives full marks to a grade cell that raises nothing, and none to one that writes to stderr
(`nbgrader.utils.determine_grade`, 0.9.6), so every failing check ends in one of these exceptions.
"""

from __future__ import annotations

import textwrap

WIDTH = 76  # `nbgrader validate` cuts lines at 87 columns, its own indent included (nbgrader 0.9.6)


class Unsolved(AssertionError):
    """A check did not pass; the message says everything, so a notebook shows it without a traceback."""

    printed = False

    @property
    def verdict(self) -> str:
        """The first line, without the exercise's name."""
        return str(self).splitlines()[0].partition(": ")[2]

    def print_first(self) -> None:
        """Prints the message now, before a picture; the notebook then shows only its first line below."""
        print(self)
        self.printed = True

    def _render_traceback_(self) -> list[str]:
        # IPython prints our frames otherwise, which say nothing about the learner's code (documented for IPython 9 in
        # "Integrating your objects with IPython").
        return str(self).splitlines()[: 1 if self.printed else None]


class NotAttempted(Unsolved):
    """The answer is still the original text."""


class Incorrect(Unsolved):
    """The answer was changed but is not right yet."""


class Unfinished(Incorrect):
    """The answer was stopped from outside: it may never end, so it is not run again for a picture."""


def message(verdict: str, *, saw: str, expected: str, look_at: str) -> str:
    """Returns the four lines a learner reads: the verdict, then what was seen, expected, and where to look.

    No line is longer than 76 columns; longer text is wrapped under its label.
    """
    rows = (("saw", saw), ("expected", expected), ("look at", look_at))
    return "\n".join(
        [*textwrap.wrap(verdict, WIDTH, break_on_hyphens=False), *(_row(label, text) for label, text in rows)]
    )


def _row(label: str, text: str) -> str:
    first, others = f"  {label:<9} ", " " * 12
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)
