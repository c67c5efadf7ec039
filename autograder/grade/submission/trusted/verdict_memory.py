"""Results of tests that may be used for another submission, because nothing that differs between the two was seen."""

from __future__ import annotations

from typing import Any, NamedTuple

from autograder.grade.submission.notebook_grade import CellGrade
from autograder.grade.submission.trusted.remote_names import Lookup, RemoteNames, encoded


class TestResult(NamedTuple):
    """What a test found.

    Attributes:
        grade: the points and the reason.
        outputs: to show below it, in nbformat's form.
        wrote_inputs: whether a call has written into an argument that the test itself made.
        leans_on: the names that the answers read and that only tests give a value, if it did not pass.
    """

    grade: CellGrade
    outputs: list[dict[str, Any]]
    wrote_inputs: bool = False
    leans_on: tuple[str, ...] = ()

    def with_count(self, execution_count: int) -> TestResult:
        """Returns the same result with another execution count."""
        numbered = [
            output | {"execution_count": execution_count} if "execution_count" in output else output
            for output in self.outputs
        ]
        return self._replace(outputs=numbered)


class VerdictMemory:
    """The results of one source's tests with one seed, by what the tests looked up in the submission."""

    def __init__(self) -> None:
        # By the test, the names that it looked up, and what these referred to: as many questions for the thousandth submission
        # as for the second.
        self._known: dict[str, dict[tuple[str, ...], dict[tuple[bytes, ...], TestResult]]] = {}

    def find(self, test: str, names: RemoteNames) -> TestResult | None:
        """Returns the result of a test for a submission of which everything that the test looks up is the same."""
        for looked_up, results in self._known.get(test, {}).items():
            values = names.encoded_values(looked_up)
            if values is not None and values in results:
                return results[values]
        return None

    def keep(self, test: str, lookups: tuple[Lookup, ...], result: TestResult) -> None:
        """Keeps a result; the caller makes sure that nothing but the lookups could tell two submissions apart."""
        looked_up, values = tuple(name for name, _ in lookups), tuple(encoded(found) for _, found in lookups)
        self._known.setdefault(test, {}).setdefault(looked_up, {})[values] = result
