"""Checks that compare a student's function with a reference and raise the reason if it is wrong.

    check("clear_after_use", like=given, d=result("n", 3), w2=leaf(3))

A check never calls the student's function itself. It asks a subject for a report of plain data, so the same cell works
in a notebook and in a grader that runs the function in another, isolated process.

The names in `__all__` are imported on first use, so that importing the package does not load torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograder.check.events import passed
    from autograder.check.exercise import check
    from autograder.check.expected import slope
    from autograder.check.message import Incorrect, NotAttempted
    from autograder.check.outcome import check_outcome
    from autograder.check.prediction import culprit, observed, predicted, predicted_value, versions_hidden
    from autograder.check.subject.inputs import constant, frozen, indices, leaf, mask, result

__all__ = [
    "Incorrect", "NotAttempted", "check", "check_outcome", "constant", "culprit", "frozen", "indices", "leaf", "mask",
    "observed", "passed", "predicted", "predicted_value", "result", "slope", "versions_hidden",
]  # fmt: skip

_NAMES = {
    "events": ("passed",),
    "exercise": ("check",),
    "expected": ("slope",),
    "message": ("Incorrect", "NotAttempted"),
    "outcome": ("check_outcome",),
    "prediction": ("culprit", "observed", "predicted", "predicted_value", "versions_hidden"),
    "subject.inputs": ("constant", "frozen", "indices", "leaf", "mask", "result"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
_SHOW_PICTURES = ("check", "culprit", "observed", "predicted", "predicted_value", "versions_hidden")


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    if name in _SHOW_PICTURES:
        from autograder.check.answer_cell import follow_cells
        from autograder.check.shown_message import is_learners_notebook
        from autograder.view import get_ready

        # Loading the drawing library with the first picture would delay that picture by most of a second.
        get_ready()
        if is_learners_notebook():
            follow_cells()
    globals()[name] = value
    return value
