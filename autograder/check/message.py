"""Verdicts as a learner reads them: four lines, always raised as an exception.

nbgrader gives full marks to a grade cell that raises nothing, and none to one that writes to stderr
(`nbgrader.utils.determine_grade`, 0.9.6), so every failing check ends in one of these exceptions.
"""

from __future__ import annotations

import itertools
import os

from autograder.locale.line_breaks import columns, join_lines, wrap_text
from autograder.locale.translations import translated

LABEL_COLUMNS = 12
WIDTH = 76  # `nbgrader validate` cuts lines at 87 columns, its own indent included (nbgrader 0.9.6)


VALIDATING = "NBGRADER_VALIDATING"  # nbgrader 0.9.6 sets it for the kernel that *Validate* starts


class Unsolved(AssertionError):
    """A check did not pass; the message says everything, so a notebook shows it without a traceback."""

    printed = False
    """Whether the message stands above a picture already, so that only the verdict is shown below it."""

    judged = ""
    """The run of a cell that was judged, such as "drain, as run in In [12]"; "" outside of a notebook."""

    @property
    def told(self) -> str:
        """The message, with the run that was judged."""
        return f"{self}\n{_row(translated('judged'), self.judged)}" if self.judged else str(self)

    @property
    def exercise(self) -> str:
        """The name at the beginning of the first line."""
        return str(self).partition(":")[0]

    @property
    def verdict(self) -> str:
        """The first line, without the exercise's name."""
        return str(self).splitlines()[0].partition(": ")[2]

    def _render_traceback_(self) -> list[str]:
        # IPython prints our frames otherwise, which say nothing about the learner's code (documented for IPython 9 in
        # "Integrating your objects with IPython").
        lines = self.told.splitlines()
        if not self.printed or VALIDATING in os.environ:  # *Validate* shows no output but the error
            return lines
        return [join_lines(itertools.takewhile(lambda line: not line.startswith(" "), lines))]


class NotAttempted(Unsolved):
    """The answer is still the original text."""

    def _render_traceback_(self) -> list[str]:
        told = [translated("{exercise}: not attempted yet", exercise=self.exercise)]
        return told if VALIDATING in os.environ else super()._render_traceback_()


class Incorrect(Unsolved):
    """The answer was changed but is not right yet.

    Attributes:
        judges_gradients: whether it was refused for its gradients or for an error, and not for its values, memory or code. Of a
            program that computes something else the gradients are something else too, and no fault of their own.
    """

    def __init__(self, told: str, judges_gradients: bool = False) -> None:
        super().__init__(told)
        self.judges_gradients = judges_gradients


class Unfinished(Incorrect):
    """The answer was stopped from outside: it may never end, so it is not run again for a picture."""


def not_attempted(exercise: str, expected: str) -> NotAttempted:
    """Returns the message to an answer that is still the original text."""
    return NotAttempted(
        message(
            translated("{exercise}: not attempted yet", exercise=exercise),
            saw=translated("the original program"),
            expected=expected,
            look_at=translated('the task above; hint("{exercise}") gives a first hint', exercise=exercise),
        )
    )


def message(verdict: str, *, saw: str, expected: str, look_at: str) -> str:
    """Returns the four lines a learner reads: the verdict, then what was seen, expected, and where to look.

    No line is longer than 76 columns; longer text is wrapped under its label.
    """
    rows = ((translated("saw"), saw), (translated("expected"), expected), (translated("look at"), look_at))
    return "\n".join([*wrap_text(verdict, WIDTH), *(_row(label, text) for label, text in rows)])


def _row(label: str, text: str) -> str:
    first = f"  {label}{' ' * (LABEL_COLUMNS - 3 - columns(label))} "
    return "\n".join(wrap_text(text, WIDTH, first, " " * LABEL_COLUMNS))
