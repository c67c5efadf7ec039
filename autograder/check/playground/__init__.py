"""The playground: a program whose lines can be reordered and rewritten, and whose arrangements are judged by running them.

    program = program_from_text("early_write", source) for arrangement in arrangements(program):
        judged = run(program, arrangement) judged.recording.verdict.outcome

The names are imported on first use, so that importing this package does not load torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograder.check.playground.arrangement import arrangements as arrangements
    from autograder.check.playground.arrangement import run as run
    from autograder.check.playground.arrangement import text_of as text_of
    from autograder.check.playground.play_program import program_from_function as program_from_function
    from autograder.check.playground.play_program import program_from_lines as program_from_lines
    from autograder.check.playground.play_program import program_from_text as program_from_text

_HOMES = {
    "arrangements": "arrangement",
    "program_from_function": "play_program",
    "program_from_lines": "play_program",
    "program_from_text": "play_program",
    "run": "arrangement",
    "text_of": "arrangement",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
