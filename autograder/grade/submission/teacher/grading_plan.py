"""The grading plan: how each test of a source is judged, from its text, its validation and the teacher's settings."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import msgspec

from autograder.grade.submission.teacher.cell_kinds import Kind, with_dependents

if TYPE_CHECKING:
    from autograder.grade.submission.teacher.source import AssignmentSource


class GradingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The way in which the tests of one source are judged."""

    kinds: dict[str, Kind] = {}  # the kind of each test, by its id; a missing test is judged in process
    nobody: dict[str, str] = {}  # id of a test → the reason why a person has to grade it
    # whether a prediction earns its points by any outcome or value, because completion counts
    any_prediction: bool = False

    def in_process(self, source: AssignmentSource) -> frozenset[str]:
        """Return the ids of the tests that run in the submission's own process."""
        outside = {name for name, kind in self.kinds.items() if kind != "in process"}
        return frozenset(cell.id for cell in source.tests) - self.nobody.keys() - outside

    def with_unplanned(self, planned: Collection[str]) -> GradingPlan:
        """Return the plan in which each declarative cell that is not among the planned ones is judged as plain data."""
        unplanned = (name for name, kind in self.kinds.items() if kind == "declarative" and name not in planned)
        return msgspec.structs.replace(self, kinds=self.kinds | dict.fromkeys(unplanned, "plain data"))

    def moved_in_process(self, source: AssignmentSource, tests: frozenset[str]) -> GradingPlan:
        """Return the plan in which these tests, and all that use a name which one of them binds, are judged in process."""
        moved = with_dependents(source.kinds, tests)
        return msgspec.structs.replace(self, kinds=self.kinds | dict.fromkeys(moved, "in process"))


def plan_of_source(source: AssignmentSource, *, forbid_in_process: bool = False) -> GradingPlan:
    """Return the plan from a source's text and the metadata of its cells: `{"autograder": {"process": "one"}}`.

    With `forbid_in_process`, tests are judged in process only if the metadata request it.
    """
    plan = GradingPlan(kinds={cell.id: source.kinds[cell.id].kind for cell in source.tests})
    inside = frozenset(cell.id for cell in source.tests if cell.process == "one" or plan.kinds[cell.id] == "in process")
    refused = [
        cell.id for cell in source.tests if cell.process == "two" or (forbid_in_process and cell.process != "one")
    ]
    outside = {name: source.kinds[name].outside_kind for name in refused if plan.kinds[name] == "in process"}
    plan = plan.moved_in_process(source, inside - outside.keys())
    return msgspec.structs.replace(plan, kinds=plan.kinds | outside)


def plan_all_in_process(source: AssignmentSource) -> GradingPlan:
    """Return the plan of `--one-process`: every test runs in the process of the answers, as in nbgrader."""
    return GradingPlan(kinds={cell.id: "in process" for cell in source.tests})
