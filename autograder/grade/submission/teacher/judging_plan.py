"""In which process each test of a source is judged; found by validation, or set by the teacher."""

from __future__ import annotations

import msgspec

from autograder.grade.submission.teacher.source import AssignmentSource


class JudgingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How the tests of one source are judged.

    Attributes:
        one: ids of the tests that run in the submission's own process; all others run in the trusted process.
        nobody: ids of the tests that mark nobody until a teacher has looked, with the reason.
        keeps_inputs: ids of the tests whose model answers write into no argument that the test made itself; a call that
            writes there in another submission must not be able to fool the test.
    """

    one: frozenset[str] = frozenset()
    nobody: dict[str, str] = {}
    keeps_inputs: frozenset[str] = frozenset()

    @property
    def elsewhere(self) -> frozenset[str]:
        """The tests that do not run in the trusted process."""
        return self.one | self.nobody.keys()


def plan_of_cells(source: AssignmentSource) -> JudgingPlan:
    """Returns the plan that the metadata of the source's cells make: `{"autograder": {"process": "one"}}`."""
    return JudgingPlan(one=source.with_dependents(cell.id for cell in source.tests if cell.process == "one"))


def all_in_one_process(source: AssignmentSource) -> JudgingPlan:
    """Returns the plan of `--one-process`: every test runs beside the answers, as in nbgrader."""
    return JudgingPlan(one=frozenset(cell.id for cell in source.tests))
