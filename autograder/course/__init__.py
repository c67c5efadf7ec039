"""The course: its catalogue, hints and progress, canonical notebooks and their release.

Importing this package defines nothing but where its names live, so `autograder lab` starts without PyTorch. A lesson's first
cell, `from autograder.course import can_now, hint`, loads them, and from then on the exercises that pass are kept.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograder.course.hints import hint as hint
    from autograder.course.hints import model_answer as model_answer
    from autograder.course.hints import reset as reset
    from autograder.course.learner_progress import can_now as can_now
    from autograder.course.learner_progress import progress as progress

_MODULES = {
    "can_now": "learner_progress",
    "hint": "hints",
    "model_answer": "hints",
    "progress": "learner_progress",
    "reset": "hints",
}

__all__ = [*_MODULES]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from autograder.course.learner_progress import keep_progress

    keep_progress()
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
