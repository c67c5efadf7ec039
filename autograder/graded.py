"""What the package shows while a hand-in is graded: its cells run, and nothing is explained.

Nobody is there to read or to play, and an explanation would hold the repairs, which the grader keeps from every submission.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from autograder.locale.translations import in_english

EXECUTION, AUTOGRADE = "NBGRADER_EXECUTION", "autograde"
"""What nbgrader sets for the notebooks that `nbgrader autograde` runs (0.9.6), and `autograder grade` as well."""


def is_graded() -> bool:
    """Returns whether a hand-in is graded in this process."""
    return os.environ.get(EXECUTION) == AUTOGRADE


@contextlib.contextmanager
def being_graded() -> Iterator[None]:
    """A block in which this process grades; the process of a test suite goes on to other things after it."""
    before = os.environ.get(EXECUTION)
    os.environ[EXECUTION] = AUTOGRADE
    try:
        yield
    finally:
        if before is None:
            del os.environ[EXECUTION]
        else:
            os.environ[EXECUTION] = before


def explain(*_: object, **__: object) -> None:
    """Says in one line that nothing is explained here."""
    print(in_english("While a hand-in is graded, nothing is explained."))


def load_magic(shell: Any) -> None:
    """Lets a cell that begins with `%%explain` run as if that line were not there, so that what it defines is there to be graded."""
    shell.input_transformers_cleanup.append(_without_magic)
    shell.register_magic_function(lambda line: explain(), magic_kind="line", magic_name="explain")


def _without_magic(lines: list[str]) -> list[str]:
    return lines[1:] if lines and lines[0].split()[:1] == ["%%explain"] else lines
