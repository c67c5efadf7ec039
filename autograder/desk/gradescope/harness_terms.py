"""What the zip for Gradescope says about grading: written where it is made, read in the container."""

from __future__ import annotations

from pathlib import Path

import msgspec

from autograder.grade.submission.teacher.grading_plan import GradingPlan
from autograder.grade.wire.limits import Limits

FILE = "terms.json"


class HarnessTerms(msgspec.Struct, frozen=True, kw_only=True):
    """How submissions are graded.

    Attributes:
        assignment: its folder's name among the sources.
        isolation: the weakest level at which anything is graded.
        hidden_tests: what a student reads of a hidden test that failed: "none", "name" or "message".
        visibility: when a student sees the result of a test with a hidden part; Gradescope's word, such as "after_due_date".
        limits: what one submission may use.
        plans: how each notebook's tests are judged, as validation found.
    """

    assignment: str
    isolation: str
    hidden_tests: str
    visibility: str
    limits: Limits
    plans: dict[str, GradingPlan]


def read_terms(folder: Path) -> HarnessTerms:
    """Returns the terms in a folder where the zip was unpacked."""
    return msgspec.json.decode((folder / FILE).read_bytes(), type=HarnessTerms)
