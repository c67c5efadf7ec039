"""The course: its catalogue, hints, progress, practice, and the release of its notebooks.

The names in `__all__` are imported on first use, so that `autograder lab` starts without PyTorch. The first cell of a
lesson, `from autograder.course import can_now, hint`, imports them; from then on, passed exercises are recorded.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograder.course.learner.after_success import can_now as can_now
    from autograder.course.learner.after_success import play as play
    from autograder.course.learner.error_index import find_error as find_error
    from autograder.course.learner.hints import hint as hint
    from autograder.course.learner.hints import model_answer as model_answer
    from autograder.course.learner.hints import reset as reset
    from autograder.course.learner.learner_progress import progress as progress
    from autograder.course.practice.quiz import quiz as quiz
    from autograder.course.practice.quiz import review as review

_MODULES = {
    "can_now": "learner.after_success",
    "find_error": "learner.error_index",
    "hint": "learner.hints",
    "model_answer": "learner.hints",
    "play": "learner.after_success",
    "progress": "learner.learner_progress",
    "quiz": "practice.quiz",
    "reset": "learner.hints",
    "review": "practice.quiz",
}

__all__ = [*_MODULES]


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
