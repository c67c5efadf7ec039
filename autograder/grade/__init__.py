"""Submissions become grades: isolation, workers, gradebook and feedback.

from autograder.grade import grade

grade(Path("solutions/02_…/02_….ipynb"), Path("ann/02_….ipynb"))   # {cell id: CellGrade(points=2.0, reason="", ...)}
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

# nbformat imports jsonschema, which makes a parser for international addresses where it finds this package (jsonschema 4.26,
# from Jupyter's own requirements): a second of every start, for a form that no notebook has.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

if TYPE_CHECKING:
    from autograder.grade.submission.single import grade as grade

__all__ = ["grade"]


def __getattr__(name: str) -> object:
    # Loaded on first use: the server that submissions are forked from is part of this package and needs none of it.
    if name == "grade":
        from autograder.grade.submission.single import grade

        return grade
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
