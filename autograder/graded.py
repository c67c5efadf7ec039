"""Replacements for `explain` while a submission is graded: its cells run, but are not explained.

An explanation would contain fixes, which must not be available to a submission.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from autograder.locale.messages import Message

EXECUTION, AUTOGRADE = "NBGRADER_EXECUTION", "autograde"
"""The environment variable and the value that `nbgrader autograde` (0.9.6) and `autograder grade` set for notebooks."""


def is_graded() -> bool:
    """Return whether this process grades a submission."""
    return os.environ.get(EXECUTION) == AUTOGRADE


@contextlib.contextmanager
def being_graded() -> Iterator[None]:
    """Mark this process as grading inside the block, and restore the previous state afterwards."""
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
    """Print that explanations are not available while a submission is graded."""
    print(Message("explain.off_while_graded|Explanations are off while a submission is graded."))


def load_magic(shell: Any) -> None:
    """Make a cell that begins with `%%explain` run without that line, so that its definitions can be graded."""
    shell.input_transformers_cleanup.append(_without_magic)
    shell.register_magic_function(lambda line: explain(), magic_kind="line", magic_name="explain")


def _without_magic(lines: list[str]) -> list[str]:
    return lines[1:] if lines and lines[0].split()[:1] == ["%%explain"] else lines
