"""A running program → a Recording: frozen plain data. The only reader of `grad_fn`, `_saved_*` and `_version`.

Importing this package loads no torch; the first use of a name below does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograder.tape.explain import explain_file as explain_file
    from autograder.tape.explain import explain_json as explain_json
    from autograder.tape.oracles import clone_on_save as clone_on_save
    from autograder.tape.oracles import finite_differences as finite_differences
    from autograder.tape.program import ProgramError as ProgramError
    from autograder.tape.recorder import outcome_of as outcome_of
    from autograder.tape.recorder import record as record
    from autograder.tape.recorder import record_cell as record_cell
    from autograder.tape.repaired import explain_and_repair as explain_and_repair

_HOMES = {
    "ProgramError": "program",
    "clone_on_save": "oracles",
    "explain_and_repair": "repaired",
    "explain_file": "explain",
    "explain_json": "explain",
    "finite_differences": "oracles",
    "outcome_of": "recorder",
    "record": "recorder",
    "record_cell": "recorder",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
