"""The verdicts that students read: four lines, always raised as an exception.

nbgrader gives full marks to a grade cell that raises no exception, and 0 points to one that writes to stderr
(`nbgrader.utils.determine_grade`, 0.9.6), so every failing check raises one of these exceptions.
"""

from __future__ import annotations

import itertools
import os
from typing import Self

from autograder.locale.line_breaks import columns, join_lines, wrap_text
from autograder.locale.translations import translated

LABEL_COLUMNS = 12
WIDTH = 76  # `nbgrader validate` cuts lines at 87 columns, including its indent (nbgrader 0.9.6)


VALIDATING = "NBGRADER_VALIDATING"  # nbgrader 0.9.6 sets it for the kernel that *Validate* starts


class Unsolved(AssertionError):
    """A check did not pass. The message is complete, so a notebook shows it without a traceback."""

    printed = False
    """Whether the message was already shown above a picture, so that only the verdict is shown below it."""

    text_below_card = ""
    """The line that a notebook shows below the message's card; "" for the verdict."""

    judged = ""
    """The run of the cell that was judged, such as "drain, as run in In [12]"; "" outside of a notebook."""

    judges_gradients = False
    """Whether the reason is a gradient or an error, and not the values, memory or code. If a program computes other values,
    its gradients differ too, but that is not a fault of the gradients."""

    @classmethod
    def of(cls, verdict: str, *, saw: str, expected: str, look_at: str, judges_gradients: bool = False) -> Self:
        """Return the exception with the four lines: the verdict, then the values seen and expected, and where to look."""
        rows = ((translated("saw"), saw), (translated("expected"), expected), (translated("look at"), look_at))
        wrong = cls("\n".join([*wrap_text(verdict, WIDTH), *(_row(label, text) for label, text in rows)]))
        wrong.judges_gradients = judges_gradients
        return wrong

    @property
    def whole_text(self) -> str:
        """The message, with the judged run."""
        return f"{self}\n{_row(translated('judged'), self.judged)}" if self.judged else str(self)

    @property
    def exercise(self) -> str:
        """The exercise's name, with which the first line begins."""
        return str(self).partition(":")[0]

    @property
    def verdict(self) -> str:
        """The first line, without the exercise's name."""
        return str(self).splitlines()[0].partition(": ")[2]

    def _render_traceback_(self) -> list[str]:
        # Without this method, IPython prints our own frames, which do not help the student (documented for IPython 9 in
        # "Integrating your objects with IPython").
        lines = self.whole_text.splitlines()
        if not self.printed or VALIDATING in os.environ:  # *Validate* shows only the error
            return lines
        return [self.text_below_card or join_lines(itertools.takewhile(lambda line: not line.startswith(" "), lines))]


class NotAttempted(Unsolved):
    """The answer is still the original text."""

    def _render_traceback_(self) -> list[str]:
        lines = [translated("{exercise}: not attempted yet", exercise=self.exercise)]
        return lines if VALIDATING in os.environ else super()._render_traceback_()


class Incorrect(Unsolved):
    """The answer was changed but is not right yet."""


class NotAnOutcome(Incorrect):
    """A prediction is not one of the four outcomes; graders distinguish it from a wrong prediction by its name."""


class Unfinished(Incorrect):
    """The answer was stopped from outside. It may never end, so it is not run again for a picture."""


def not_attempted(exercise: str, expected: str) -> NotAttempted:
    """Return the message for an answer that is still the original text."""
    return NotAttempted.of(
        translated("{exercise}: not attempted yet", exercise=exercise),
        saw=translated("the original program"),
        expected=expected,
        look_at=translated('the task above; hint("{exercise}") gives a first hint', exercise=exercise),
    )


def _row(label: str, text: str) -> str:
    first = f"  {label}{' ' * (LABEL_COLUMNS - 3 - columns(label))} "
    return "\n".join(wrap_text(text, WIDTH, first, " " * LABEL_COLUMNS))
