"""A running program → a Recording: frozen plain data. The only reader of `grad_fn`, `_saved_*` and `_version`.

Importing this package loads no torch; the first use of a name below does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograder.tape.program import ProgramError as ProgramError
    from autograder.tape.recorder import outcome_of as outcome_of
    from autograder.tape.recorder import record as record

_HOMES = {
    "ProgramError": "program",
    "outcome_of": "recorder",
    "record": "recorder",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
