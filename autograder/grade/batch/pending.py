"""Whether a class has work to grade, guessed from file times alone. Imports nothing that takes time."""

from __future__ import annotations

import glob
from pathlib import Path


def has_pending_work(course: Path, assignment: str) -> bool:
    """Returns whether some student's work was never graded or is newer than its grade.

    Only decides whether servers start early, while the grader itself is still being imported; what is graded is decided by
    the contents of the files.
    """
    return any(_is_pending(folder) for folder in course.glob(f"submitted/*/{glob.escape(assignment)}"))


def _is_pending(submitted: Path) -> bool:
    student, assignment = submitted.parent.name, submitted.name
    graded = submitted.parents[2] / "autograded" / student / assignment
    try:
        graded_at = graded.stat().st_mtime
        return any(path.lstat().st_mtime > graded_at for path in (submitted, *submitted.rglob("*")))
    except OSError:
        return True
