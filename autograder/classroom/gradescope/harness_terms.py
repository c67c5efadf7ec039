"""The grading terms in the zip for Gradescope: written when the zip is built, read in the container."""

from __future__ import annotations

from pathlib import Path

import msgspec

from autograder.grade.submission.teacher.grading_plan import GradingPlan
from autograder.grade.wire.limits import Limits

FILE = "terms.json"


class HarnessTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of grading.

    Attributes:
        assignment: the name of its folder among the sources.
        isolation: the weakest level at which submissions are graded.
        hidden_tests: the information about a failed hidden test that a student gets: "none", "name" or "message".
        visibility: when a student sees the result of a test with a hidden part, in Gradescope's terms, such as
            "after_due_date".
        limits: the resource limits of one submission.
        plans: the grading plan of each notebook, from validation.
    """

    assignment: str
    isolation: str
    hidden_tests: str
    visibility: str
    limits: Limits
    plans: dict[str, GradingPlan]


def read_terms(folder: Path) -> HarnessTerms:
    """Return the terms in the folder of the unpacked zip."""
    return msgspec.json.decode((folder / FILE).read_bytes(), type=HarnessTerms)
