"""Run a program and record what autograd saved, as a `Recording` of frozen plain data.

Only this subpackage reads `grad_fn`, `_saved_*` and `_version`. Importing it does not import torch; using one of its
public names does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograder.tape.explain import explain_cell as explain_cell
    from autograder.tape.explain import explain_program as explain_program
    from autograder.tape.explain import outcome_of as outcome_of
    from autograder.tape.explain import record as record
    from autograder.tape.explain import record_file as record_file
    from autograder.tape.oracle.gradient_comparison import clone_on_save as clone_on_save
    from autograder.tape.oracle.gradient_comparison import finite_differences as finite_differences
    from autograder.tape.recording.schema import explain_json as explain_json
    from autograder.tape.run.programs.source_text import ProgramError as ProgramError

_HOMES = dict.fromkeys(("explain_cell", "explain_program", "outcome_of", "record", "record_file"), "explain")
_HOMES |= dict.fromkeys(("clone_on_save", "finite_differences"), "oracle.gradient_comparison")
_HOMES |= {"ProgramError": "run.programs.source_text", "explain_json": "recording.schema"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
