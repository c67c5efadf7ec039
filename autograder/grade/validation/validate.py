"""Validate a source: grade its own answers and its release, and say how each test is judged and what to look at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from textwrap import shorten

import msgspec

from autograder.errors import UnfinishedError
from autograder.grade.submission.notebook_grade import CellGrade, NotebookGrade
from autograder.grade.submission.teacher.cell_kinds import Kind
from autograder.grade.submission.teacher.grading_plan import GradingPlan, plan_all_in_process, plan_of_source
from autograder.grade.submission.teacher.source import AssignmentSource, SourceCell
from autograder.grade.validation.made_up_submissions import (
    MadeUpSubmission,
    OnStep,
    grade_submissions,
    ignore_step,
    model_answers,
    release,
)
from autograder.grade.where.grading_job import Graders

IN_PROCESS: Kind = "in process"

LONGEST_QUOTE = 400
LONGEST_LINE = 120
NOT_JUDGED = "this test could not be judged: "
MISSING_MODULE = "No module named"
COUNTS = 'write {"autograder": {"counts": true}} into its metadata'
ACCEPT = 'repair the test, or accept that with {"autograder": {"process": "one"}} in its metadata'


class ValidationError(UnfinishedError):
    """The source could not be validated; the message says why."""


class CellReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one test.

    Attributes:
        id: its grade_id.
        max_points: its maximum.
        model: points of the model answers; None if they could not be judged, or if the source has none for this test.
        release: points of the release; None if they could not be judged.
        kind: how the test is judged; None if it gives points to nobody.
        over_maximum: the highest number on its last line that is more than its maximum; None if none is.
        findings: what the teacher should look at, one sentence each.
        note: what else the teacher may want to know.
    """

    id: str
    max_points: float
    model: float | None
    release: float | None
    kind: Kind | None
    over_maximum: float | None = None
    findings: tuple[str, ...] = ()
    note: str | None = None


class SourceReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of validating a source.

    Attributes:
        notebook: the source's name.
        cells: its tests, in order.
        plan: how submissions are graded.
        ended: why the program of the model answers ended before its last cell; None if it did not.
    """

    notebook: str
    cells: tuple[CellReport, ...]
    plan: GradingPlan
    ended: str | None = None

    @property
    def findings(self) -> list[str]:
        """What the teacher should look at before grading; the finding of a test begins with its grade_id."""
        ended = [f"with the model answers, {self.ended}"] if self.ended else []
        return [*ended, *(f"{cell.id}: {finding}" for cell in self.cells for finding in cell.findings)]

    @property
    def notes(self) -> list[str]:
        """What else the teacher may want to know; each note begins with a grade_id."""
        return [f"{cell.id}: {cell.note}" for cell in self.cells if cell.note]


@dataclass(frozen=True)
class _Runs:
    """The grades of the tests, by grade_id: of the model answers and the release by `plan`, and of the answers in process."""

    plan: GradingPlan
    model: dict[str, CellGrade]
    in_process: dict[str, CellGrade]
    release: dict[str, CellGrade]

    def replaced(self, plan: GradingPlan, moved: Iterable[str], model: NotebookGrade, release: NotebookGrade) -> _Runs:
        """Return the runs by another plan, of which only the grades of the moved tests differ."""
        models = self.model | {name: model.cells[name] for name in moved}
        return _Runs(plan, models, self.in_process, self.release | {name: release.cells[name] for name in moved})


@dataclass(frozen=True)
class _Decision:
    """How one test is judged.

    Attributes:
        kind: None if it gives points to nobody.
        why: the reason, where the runs moved the test into the submission's process or let it give no points.
        finding: what else the teacher should look at.
    """

    kind: Kind | None
    why: str | None = None
    finding: str | None = None


def validate_source(
    source: AssignmentSource,
    graders: Graders,
    *,
    forbid_in_process: bool = False,
    all_in_process: bool = False,
    on_step: OnStep = ignore_step,
) -> SourceReport:
    """Grade the source's own answers and its release in three runs, and return how each test is judged.

    Where these runs move a test into the submission's process, two more check the new plan.

    Args:
        source: the teacher's notebook.
        graders: where the made-up submissions are graded.
        forbid_in_process: whether a test that cannot be judged outside the submission's process gives points to nobody.
        all_in_process: whether every test is judged in process.
        on_step: called when the grading of a made-up submission begins.

    Raises:
        IsolationError: the sandbox does not start.
        ValidationError: the grader failed.
    """
    grade = partial(_grade, source, graders, on_step)
    everything = plan_all_in_process(source)
    plan = everything if all_in_process else plan_of_source(source, forbid_in_process=forbid_in_process)
    answers, untouched = model_answers(source), release(source)
    model, in_process, handed_out = grade(
        MadeUpSubmission("model answers", answers, plan),
        MadeUpSubmission("model answers, in process", answers, everything),
        MadeUpSubmission("release", untouched, plan),
    )
    runs = _Runs(plan, model.cells, in_process.cells, handed_out.cells)
    decisions = {cell.id: _decide(source, cell, runs, forbid_in_process) for cell in source.tests}
    planned = _plan(source, decisions, plan)
    if moved := planned.in_process(source) - plan.in_process(source):
        again, handed_out_again = grade(
            MadeUpSubmission("model answers, as planned", answers, planned),
            MadeUpSubmission("release, as planned", untouched, planned),
        )
        runs = runs.replaced(planned, moved, again, handed_out_again)
        checked = {name: _decide(source, source.by_id[name], runs) for name in moved}
        decisions |= {name: decision for name, decision in checked.items() if decision.kind is None}
        planned = _plan(source, decisions, plan)
    cells = tuple(_report(source, cell, decisions[cell.id], runs, planned) for cell in source.tests)
    ended = model.ended or in_process.ended or None
    return SourceReport(notebook=source.name, cells=cells, plan=planned, ended=ended)


def _grade(
    source: AssignmentSource, graders: Graders, on_step: OnStep, *submissions: MadeUpSubmission
) -> list[NotebookGrade]:
    grades = []
    for made_up, grade in zip(submissions, grade_submissions(source, submissions, graders, on_step), strict=True):
        if isinstance(grade, str):
            raise ValidationError(f"the source could not be validated: grading its {made_up.name} failed ({grade})")
        grades.append(grade)
    return grades


def _kind(plan: GradingPlan, cell: SourceCell) -> Kind:
    return plan.kinds.get(cell.id, IN_PROCESS)


def _plan(source: AssignmentSource, decisions: dict[str, _Decision], plan: GradingPlan) -> GradingPlan:
    nobody = {name: decision.why or "" for name, decision in decisions.items() if decision.kind is None}
    moved = frozenset(name for name, decision in decisions.items() if decision.kind == IN_PROCESS)
    return msgspec.structs.replace(plan.moved_in_process(source, moved), nobody=nobody)


def _decide(source: AssignmentSource, cell: SourceCell, runs: _Runs, forbid_in_process: bool = False) -> _Decision:
    """Return how a test is judged, from the grades of its model answer by the plan and with every test in process."""
    kind, planned, inside = _kind(runs.plan, cell), runs.model[cell.id], runs.in_process[cell.id]
    got = f"the model answer {_got(planned, cell.text)}"
    if _is_full(planned):
        differs = not _is_full(inside)
        return _Decision(
            kind, finding=f"in process, as nbgrader runs it, the model answer {_got(inside)}" if differs else None
        )
    better_inside = (inside.points or 0.0) > (planned.points or 0.0)
    if better_inside and kind == IN_PROCESS:
        advice = "repair the test, or grade every test in process with `--one-process`"
        return _Decision(None, f"without the other tests in its process {got}, so it gives points to nobody: {advice}")
    unplanned = planned.points is None and (cell.counts or not source.has_model(cell))
    if better_inside or unplanned:
        return _in_process(cell, f"outside the submission's process {got}", forbid_in_process)
    if planned.points:
        return _Decision(kind, finding=f"{got}: repair the answer or the test, unless that is meant")
    if cell.counts or not source.has_model(cell):
        return _Decision(kind)
    telling = inside if MISSING_MODULE in inside.reason or planned.points is not None else planned
    advice = "install the module for this Python, repair the test" if MISSING_MODULE in telling.reason else "repair it"
    failed = f"its own model answer {_got(telling, cell.text)}"
    return _Decision(None, f"{failed}, so it gives points to nobody: {advice}, or {COUNTS}")


def _in_process(cell: SourceCell, why: str, forbidden: bool) -> _Decision:
    """Return that a test is judged in process, or gives points to nobody where the teacher forbids that."""
    if forbidden or cell.process == "two":
        refused = (
            f"{why}, and the test may not be judged in process, so it gives points to nobody: repair it, or allow that"
        )
        return _Decision(None, refused)
    return _Decision(IN_PROCESS, why)


def _report(
    source: AssignmentSource, cell: SourceCell, decision: _Decision, runs: _Runs, plan: GradingPlan
) -> CellReport:
    model, untouched = runs.model[cell.id].points, runs.release[cell.id].points
    kind = _kind(plan, cell) if decision.kind else None
    findings = [decision.finding] if decision.finding else []
    note = None
    if kind is None:
        findings.insert(0, str(decision.why))
    elif decision.why:
        findings.insert(0, f"judged in process, because {decision.why}: {ACCEPT}")
    elif kind == IN_PROCESS and runs.plan != plan_all_in_process(source):
        reason = source.kinds[cell.id].reason or "it uses a name that a test judged in process binds"
        note = f"judged in process, {'as its metadata say' if cell.process == 'one' else f'because {reason}'}"
    if untouched:
        findings.append("it gives points to the release: repair the test, unless that is meant")
    numbers = [run[cell.id].over_maximum for run in (runs.model, runs.in_process, runs.release)]
    highest = max(filter(None, numbers), default=None)
    if highest:
        findings.append(over_maximum(highest))
    return CellReport(
        id=cell.id,
        max_points=cell.points,
        model=model if model or source.has_model(cell) else None,
        release=untouched,
        kind=kind,
        over_maximum=highest,
        findings=tuple(findings),
        note=note,
    )


def over_maximum(number: float) -> str:
    """Return the finding on a test whose last line can be more than its maximum, which stops `nbgrader autograde`."""
    return f"its last line can be {number:g}, which is more than its maximum, and then counts as the maximum: repair the test"


def _is_full(grade: CellGrade) -> bool:
    return grade.points == grade.max_points


def _got(grade: CellGrade, text: str = "") -> str:
    reason = shorten(grade.reason.removeprefix(NOT_JUDGED), LONGEST_QUOTE, placeholder=" ...")
    quoted = f" ({reason}{_line(grade, text)})" if reason else ""
    if grade.points is None:
        return f"cannot be judged{quoted}"
    return f"gets {grade.points:g} of {grade.max_points:g}{quoted}"


def _line(grade: CellGrade, text: str) -> str:
    """Return the line of the test that ended it, because an `assert` without a message says nothing else."""
    if not text or not grade.line:
        return ""
    line = shorten(text.splitlines()[grade.line - 1], LONGEST_LINE, placeholder=" ...")
    return f", in line {grade.line}: {line}"
