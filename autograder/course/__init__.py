"""The course: its catalogue, hints, progress, practice, and the release of its notebooks.

The names in `__all__` are imported on first use, so that `autograder lab` starts without PyTorch. The first cell of a
lesson, `from autograder.course import can_now, hint`, imports them; from then on, passed exercises are recorded.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograder.course.learner.after_success import can_now, play
    from autograder.course.learner.error_index import find_error
    from autograder.course.learner.hints import hint, model_answer, reset
    from autograder.course.learner.learner_progress import progress
    from autograder.course.practice.quiz import quiz, review

__all__ = ["can_now", "find_error", "hint", "model_answer", "play", "progress", "quiz", "reset", "review"]

_NAMES = {
    "learner.after_success": ("can_now", "play"),
    "learner.error_index": ("find_error",),
    "learner.hints": ("hint", "model_answer", "reset"),
    "learner.learner_progress": ("progress",),
    "practice.quiz": ("quiz", "review"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from autograder.course.learner.after_success import explain_passes
    from autograder.course.learner.learner_progress import keep_progress

    keep_progress()
    explain_passes()
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
