"""Validates a source: grades its own answers and its release, and reports how each test is judged, with its problems."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from textwrap import shorten
from typing import Literal

import msgspec
import nbformat
from nbformat import NotebookNode
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn
from rich.table import Column, Table
from rich.text import Text

from autograder.errors import UnfinishedError, printable
from autograder.grade.backends.grading_job import Backend, Job
from autograder.grade.submission.cell_analysis import UNDEFINED, failed_definition
from autograder.grade.submission.notebook_grade import CellGrade, NotebookGrade
from autograder.grade.submission.teacher.cell_kinds import DEPENDENT, Kind
from autograder.grade.submission.teacher.source import (
    AssignmentSource,
    GradingPlan,
    SourceCell,
    plan_all_in_process,
    plan_of_source,
)

IN_PROCESS: Kind = "in process"
LONGEST_QUOTE, LONGEST_LINE = 400, 120
SYNTAX_ERROR = re.compile(r" \(<ipython-input[^)]*>, line (\d+)\)")
BETWEEN_LINES = 10  # of a long list of submissions, every tenth step is printed
NOT_JUDGED = "this test could not be judged: "
MISSING_MODULE = "No module named"
SETUP_FAILED = "the teacher's cell ended with"
COUNTS = 'write {"autograder": {"counts": true}} into its metadata'
ACCEPT = 'fix the test, or accept that with {"autograder": {"process": "one"}} in its metadata'

OnStep = Callable[[str, int, int], None]
"""Called when the grading of a generated submission begins, with its notebook and name, its number from 1, and the total."""


class CellReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one test, given by its grade_id."""

    id: str
    max_points: float
    model: float | None  # points of the model answers; None if the test has no model answer, or could not be judged
    release: float | None  # points of the release; None if the test could not be judged
    kind: Kind | None  # how the test is judged; None if it does not give points to anyone
    findings: tuple[str, ...] = ()  # one sentence for each problem for the teacher
    note: str | None = None


class SourceReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of validating a source: its tests in order, and how submissions are graded."""

    notebook: str
    cells: tuple[CellReport, ...]
    plan: GradingPlan
    ended: str | None = None  # reason why the program of the model answers ended before its last cell

    @property
    def findings(self) -> list[str]:
        """The problems that the teacher should look at before grading; the finding of a test begins with its grade_id."""
        ended = [f"with the model answers, {self.ended}"] if self.ended else []
        return [*ended, *(f"{cell.id}: {finding}" for cell in self.cells for finding in cell.findings)]

    @property
    def notes(self) -> list[str]:
        """Other notes for the teacher; each begins with a grade_id."""
        return [f"{cell.id}: {cell.note}" for cell in self.cells if cell.note]


@dataclass(frozen=True)
class _Runs:
    """The grades of the tests, by grade_id: of the model answers and the release by `plan`, and of the model answers in process."""

    plan: GradingPlan
    model: dict[str, CellGrade]
    in_process: dict[str, CellGrade]
    release: dict[str, CellGrade]
    all_in_process: bool  # whether the teacher asked for a plan that judges every test in process
    answered: str  # the notebook with the model answers as they ran


@dataclass(frozen=True)
class _Decision:
    """The way in which one test is judged."""

    kind: Kind | None  # None if it does not give points to anyone
    why: str | None = None  # the reason, if the runs moved the test in process or left its points to a person
    finding: str | None = None


def ignore_step(*_: object) -> None:
    """Ignore the step."""


def model_answers(source: AssignmentSource) -> NotebookNode:
    """Return the source with its model answers."""
    return with_answers(source, {cell.id: cell.full for cell in source.cells if cell.is_answer})


def with_answers(source: AssignmentSource, answers: Mapping[str, str]) -> NotebookNode:
    """Return a submission with these texts in the answer cells, by grade_id, and the released text in all other cells."""
    cells = []
    for cell in source.cells:
        make = nbformat.v4.new_code_cell if cell.cell.cell_type == "code" else nbformat.v4.new_markdown_cell
        metadata = {key: cell.cell.metadata[key] for key in ("nbgrader",) if key in cell.cell.metadata}
        cells.append(make(answers.get(cell.id, cell.visible) if cell.id else cell.visible, metadata=metadata))
    return nbformat.v4.new_notebook(cells=cells)


def grade_submissions(
    source: AssignmentSource,
    submissions: Mapping[str, tuple[NotebookNode, GradingPlan]],
    backend: Backend,
    on_step: OnStep = ignore_step,
) -> dict[str, NotebookGrade | str]:
    """Return each submission's grade by its name, or the reason why the grader failed. Raise IsolationError without a sandbox."""

    def jobs() -> Iterator[Job]:
        for number, (name, (notebook, plan)) in enumerate(submissions.items(), 1):
            on_step(f"{source.name}: {name}", number, len(submissions))
            yield Job(name, source.name, nbformat.writes(notebook).encode(), source.student_files, plan)

    # in the order in which they finish
    results = {result.student: result.grade or result.failure for result in backend.grade(jobs())}
    return {name: results[name] for name in submissions}


def validate_source(
    source: AssignmentSource,
    backend: Backend,
    *,
    forbid_in_process: bool = False,
    all_in_process: bool = False,
    on_step: OnStep = ignore_step,
) -> SourceReport:
    """Grade the source's own answers and its release in three runs, and return how each test is judged.

    If these runs move a test into the submission's process, two more runs check the new plan. With `forbid_in_process`,
    a test that cannot be judged outside that process does not give points; with `all_in_process`, every test is judged
    in it.

    Raises:
        IsolationError: the sandbox does not start.
        UnfinishedError: the grader failed.
    """
    grade = partial(_grade, source, backend, on_step)
    everything = plan_all_in_process(source)
    plan = everything if all_in_process else plan_of_source(source, forbid_in_process=forbid_in_process)
    answers, untouched = model_answers(source), with_answers(source, {})
    model, in_process, handed_out = grade(
        {
            "model answers": (answers, plan),
            "model answers, in process": (answers, everything),
            "release": (untouched, plan),
        }
    )
    runs = _Runs(plan, model.cells, in_process.cells, handed_out.cells, all_in_process, model.notebook)
    decisions = {cell.id: _decide(source, cell, runs, forbid_in_process) for cell in source.tests}
    planned = _plan(source, decisions, plan)
    if moved := planned.in_process(source) - plan.in_process(source):
        models, releases = grade(
            {"model answers, as planned": (answers, planned), "release, as planned": (untouched, planned)}
        )
        runs = replace(
            runs,
            plan=planned,
            model=runs.model | {name: models.cells[name] for name in moved},
            release=runs.release | {name: releases.cells[name] for name in moved},
        )
        checked = {name: _decide(source, source.by_id[name], runs) for name in moved}
        decisions |= {name: decision for name, decision in checked.items() if decision.kind is None}
        planned = _plan(source, decisions, plan)
    cells = tuple(_report(source, cell, decisions[cell.id], runs, planned) for cell in source.tests)
    return SourceReport(notebook=source.name, cells=cells, plan=planned, ended=model.ended or in_process.ended or None)


def _grade(
    source: AssignmentSource,
    backend: Backend,
    on_step: OnStep,
    submissions: Mapping[str, tuple[NotebookNode, GradingPlan]],
) -> list[NotebookGrade]:
    grades = []
    for name, grade in grade_submissions(source, submissions, backend, on_step).items():
        if isinstance(grade, str):
            raise UnfinishedError(f"the source could not be validated: grading its {name} failed ({grade})")
        grades.append(grade)
    return grades


def _plan(source: AssignmentSource, decisions: dict[str, _Decision], plan: GradingPlan) -> GradingPlan:
    nobody = {name: decision.why or "" for name, decision in decisions.items() if decision.kind is None}
    moved = frozenset(name for name, decision in decisions.items() if decision.kind == IN_PROCESS)
    return msgspec.structs.replace(plan.moved_in_process(source, moved), nobody=nobody)


def _decide(source: AssignmentSource, cell: SourceCell, runs: _Runs, forbid_in_process: bool = False) -> _Decision:
    """Return how a test is judged, from the grades of its model answer by the plan and with every test in process."""
    kind, planned, inside = runs.plan.kinds[cell.id], runs.model[cell.id], runs.in_process[cell.id]
    got = f"the model answer {_got(planned, cell)}"
    if _is_full(planned):
        finding = f"in process, as nbgrader runs it, the model answer {_got(inside)}"
        return _Decision(kind, finding=None if _is_full(inside) else finding)
    better_inside = (inside.points or 0.0) > (planned.points or 0.0)
    if better_inside and kind == IN_PROCESS:
        advice = "fix the test, or grade every test in process with `--one-process`"
        return _Decision(None, f"if the test runs alone in its process, {got}, so a person has to grade it: {advice}")
    asks_no_model = cell.counts or not source.has_model_answer(cell)
    if better_inside or (planned.points is None and asks_no_model):
        why = f"outside the submission's process {got}"
        if not forbid_in_process and cell.process != "two":
            return _Decision(IN_PROCESS, why)
        refused = "the test may not be judged in process, so a person has to grade it: fix it, or allow that"
        return _Decision(None, f"{why}, and {refused}")
    if planned.points:
        return _Decision(kind, finding=f"{got}: fix the answer or the test, unless that is meant")
    if asks_no_model:
        return _Decision(kind)
    # That a value cannot leave its process is not the reason if the test fails in that process too.
    has_reason = planned.points is not None and (planned.line or SETUP_FAILED in planned.reason)
    decisive = planned if has_reason else inside
    failed = f"its own model answer {_got(decisive, cell, runs.answered)}"
    advice = "install the module for this Python, fix the test" if MISSING_MODULE in failed else "fix it"
    return _Decision(None, f"{failed}, so a person has to grade it: {advice}, or {COUNTS}")


def _report(
    source: AssignmentSource, cell: SourceCell, decision: _Decision, runs: _Runs, plan: GradingPlan
) -> CellReport:
    model, untouched = runs.model[cell.id].points, runs.release[cell.id].points
    kind = plan.kinds[cell.id] if decision.kind else None
    findings = [decision.finding] if decision.finding else []
    note = None
    if kind is None:
        findings.insert(0, str(decision.why))
    elif decision.why:
        findings.insert(0, f"judged in process, because {decision.why}: {ACCEPT}")
    elif kind == IN_PROCESS and not runs.all_in_process:
        reason = source.kinds[cell.id].reason or DEPENDENT
        note = f"judged in process, {'as its metadata say' if cell.process == 'one' else f'because {reason}'}"
    if untouched:
        findings.append("it gives points to the release: fix the test, unless that is meant")
    numbers = [run[cell.id].over_maximum for run in (runs.model, runs.in_process, runs.release)]
    if highest := max(filter(None, numbers), default=None):
        findings.append(
            f"its last line can be {highest:g}, which is more than its maximum, and then counts as the maximum: fix the test"
        )
    return CellReport(
        id=cell.id,
        max_points=cell.points,
        model=model if model or source.has_model_answer(cell) else None,
        release=untouched,
        kind=kind,
        findings=tuple(findings),
        note=note,
    )


def _is_full(grade: CellGrade) -> bool:
    return grade.points == grade.max_points


def _got(grade: CellGrade, cell: SourceCell | None = None, answered: str = "") -> str:
    reason = shorten(grade.reason.removeprefix(NOT_JUDGED), LONGEST_QUOTE, placeholder=" ...")
    broken = SYNTAX_ERROR.search(reason)  # the test is not Python
    reason, number = SYNTAX_ERROR.sub("", reason), int(broken[1]) if broken else grade.line
    lines = cell.text.splitlines() if cell else []
    if reason and 0 < number <= len(lines):  # an `assert` without a message does not show more
        line = shorten(lines[number - 1], LONGEST_LINE, placeholder=" ...")
        reason = f"{reason}, in line {number}: {line}"
    if cell and answered and (name := UNDEFINED.search(reason)):
        failed = failed_definition(name[1], nbformat.v4.reads(answered).cells, cell.id)
        reason += "; the cell that defines {} ended with {}".format(*failed) if failed else ""
    quoted = f" ({reason})" if reason else ""
    if grade.points is None:
        return f"cannot be judged{quoted}"
    return f"gets {grade.points:g} of {grade.max_points:g}{quoted}"


def print_report(report: SourceReport, mutation: Iterable[str] = ()) -> None:
    """Print a table with a line for each test, the findings for the teacher, and the lines of a mutation test."""
    console = Console()
    rows = []
    for cell in report.cells:
        points = ["-" if value is None else f"{value:g}" for value in (cell.max_points, cell.model, cell.release)]
        rows.append([cell.id, *points, cell.kind or "by a person"])
    table = text_table(("test", "points", "model answers", "release", "judged"), rows)
    table.title, table.title_justify = Text(printable(report.notebook)), "left"
    console.print(table, highlight=False)
    for line in [*report.notes, *report.findings, *mutation]:
        console.print(Text(printable(line)), highlight=False, soft_wrap=True)


def report_lines(reports: list[SourceReport], kind: Literal["findings", "notes"]) -> list[str]:
    """Return the problems that the teacher should look at before the first submission is graded, or other notes."""
    return [printable(f"{report.notebook}, {line}") for report in reports for line in getattr(report, kind)]


def text_table(headings: Iterable[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table of texts, which are not markup: rich would interpret "[/bold]" in a student's text."""
    table = Table(*(Column(heading, overflow="fold") for heading in headings), box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(printable(cell) if cell else "") for cell in row))
    return table


@contextlib.contextmanager
def progress_on_stderr(*columns: ProgressColumn, transient: bool = False) -> Iterator[Callable[..., None]]:
    """Yield a function that sets the state of a bar on standard error, which is drawn only in a terminal."""
    console = Console(stderr=True)
    hidden = not console.is_terminal
    # Threads must not run when processes are forked, so the bar is redrawn only when it changes.
    with Progress(*columns, console=console, auto_refresh=False, transient=transient, disable=hidden) as bar:
        yield partial(bar.update, bar.add_task("", total=None), refresh=True)


@contextlib.contextmanager
def shown_steps() -> Iterator[OnStep]:
    """Yield a function that shows a step on standard error: as a bar in a terminal, otherwise as a line."""
    described, is_terminal = TextColumn("validating {task.description}", markup=False), Console(stderr=True).is_terminal
    with progress_on_stderr(described, BarColumn(), MofNCompleteColumn(), transient=True) as update:

        def show(name: str, number: int, total: int) -> None:
            update(description=printable(name), completed=number, total=total)
            if not is_terminal and (total <= BETWEEN_LINES or number % BETWEEN_LINES in (0, 1) or number == total):
                print(f"validating {printable(name)} ({number} of {total})", file=sys.stderr, flush=True)

        yield show
