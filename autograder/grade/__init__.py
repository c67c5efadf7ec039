"""Grades submissions: isolation, workers, gradebook and feedback.

from autograder.grade import grade

grade(Path("solutions/02_…/02_….ipynb"), Path("ann/02_….ipynb"))   # {cell id: CellGrade(points=2.0, reason="", ...)}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograder.grade.rehearsal.single import grade as grade

__all__ = ["grade"]


def __getattr__(name: str) -> object:
    # Imported on first use: the server, which forks submissions, is part of this package and needs none of it.
    if name == "grade":
        from autograder.grade.sandbox.warmup import import_nbformat

        import_nbformat()
        from autograder.grade.rehearsal.single import grade

        return grade
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
