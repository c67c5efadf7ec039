"""The exceptions and warnings that came out of the learner's code during one test."""

from __future__ import annotations

from typing import Any

from autograder.grade.submission.stand_ins.refusals import LearnerError, steers
from autograder.grade.wire.shared.warnings_given import give_again
from autograder.locale.translations import in_english

KEPT_ERRORS = 100


class LearnersErrors:
    """Knows which exceptions are the learner's, the latest ones at least."""

    def __init__(self) -> None:
        self._known: list[BaseException] = []

    def __contains__(self, error: object) -> bool:
        return any(error is known for known in self._known)

    def raisable(self, error: Any, operation: str) -> BaseException:
        """Returns what to raise in the test for an exception of the learner's: one that cannot steer the test."""
        if not isinstance(error, Exception):
            error = LearnerError(in_english("an exception that cannot leave the submission's own process"))
        if steers(type(error)) and not (operation == "__next__" and type(error) is StopIteration):
            error = LearnerError(f"{type(error).__name__}: {error}")
        self._keep(error)
        return error

    def warn(self, warnings: Any) -> None:
        """Gives the learner's warnings where the test's filters apply; what these raise is the learner's, too."""
        try:
            give_again(warnings)
        except Warning as error:
            self._keep(error)
            raise

    def _keep(self, error: BaseException) -> None:
        self._known = [*self._known[-KEPT_ERRORS:], error]
