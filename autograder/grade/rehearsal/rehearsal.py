"""Rehearses a source: its model answers and the notebook as handed out, each in two processes and in one."""

from __future__ import annotations

import msgspec

from autograder.errors import UnfinishedError
from autograder.grade.rehearsal.hand_in_variants import Variant, as_handed_out, grade_variants, model_answers
from autograder.grade.rehearsal.rehearsal_steps import OnStep, unseen
from autograder.grade.rehearsal.rehearsed_cell import RehearsedCell, Tried, cell_as_judged, rehearsed
from autograder.grade.submission.notebook_grade import NotebookGrade
from autograder.grade.submission.teacher.judging_plan import JudgingPlan, all_in_one_process
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.where.grading_job import Graders


class RehearsalError(UnfinishedError):
    """The rehearsal could not be finished; the message says why."""


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """What a rehearsal found.

    Attributes:
        notebook: the source's name.
        cells: its tests, in order.
        plan: how they are judged from now on.
        notes: what else to look at, one sentence each.
    """

    notebook: str
    cells: tuple[RehearsedCell, ...]
    plan: JudgingPlan
    notes: tuple[str, ...] = ()

    @property
    def remarks(self) -> list[str]:
        """What a teacher should look at before grading, one sentence each; a cell's begins with its grade_id."""
        return [*self.notes, *(f"{cell.id}: {cell.remark}" for cell in self.cells if cell.remark)]


def rehearse(
    source: AssignmentSource,
    processes: Graders,
    *,
    forbid_one_process: bool = False,
    on_step: OnStep = unseen,
) -> Rehearsal:
    """Grades the source's own answers, and returns how each test is to be judged.

    Args:
        source: the teacher's notebook.
        processes: where the answers are graded, as any hand-in.
        forbid_one_process: whether a test that cannot be judged in two processes marks nobody.
        on_step: called when one of the hand-ins is begun.

    Raises:
        IsolationError: the servers do not start.
        RehearsalError: the grader failed.
    """
    beside = all_in_one_process(source)
    variants = [
        Variant("model answers, two processes", model_answers(source)),
        Variant("model answers, one process", model_answers(source), beside),
        Variant("as handed out, two processes", as_handed_out(source)),
        Variant("as handed out, one process", as_handed_out(source), beside),
    ]
    graded = grade_variants(source, variants, processes, on_step)
    model_two, model_one, untouched_two, untouched_one = (_grade(graded[one.name], one.name) for one in variants)
    cells = []
    for cell in source.tests:
        tried = Tried(
            model_two=model_two.cells[cell.id],
            model_one=model_one.cells[cell.id],
            untouched_two=untouched_two.cells[cell.id],
            untouched_one=untouched_one.cells[cell.id],
        )
        cells.append(rehearsed(source, cell, tried, forbid_one_process=forbid_one_process))
    notes = [f"with the model answers, {grade.ended}" for grade in (model_two, model_one) if grade.ended]
    plan = _plan(source, cells, model_two)
    if plan.one and plan.one < beside.one:
        trial = Variant("model answers, as they will be judged", model_answers(source), plan)
        judged = _grade(grade_variants(source, [trial], processes, on_step)[trial.name], trial.name)
        cells = [cell_as_judged(cell, judged.cells[cell.id]) if cell.id in plan.one else cell for cell in cells]
        plan = _plan(source, cells, model_two)
    return Rehearsal(notebook=source.name, cells=tuple(cells), plan=plan, notes=tuple(notes[:1]))


def beside_the_answers(found: Rehearsal) -> Rehearsal:
    """Returns what a rehearsal means for `--one-process`: every test runs in one process, but those that mark nobody."""
    cells = [
        cell if cell.process == "nobody" else msgspec.structs.replace(cell, process="one", remark="")
        for cell in found.cells
    ]
    one = frozenset(cell.id for cell in cells if cell.process == "one")
    return msgspec.structs.replace(found, cells=tuple(cells), plan=JudgingPlan(one=one, nobody=found.plan.nobody))


def _grade(found: NotebookGrade | str, name: str) -> NotebookGrade:
    if isinstance(found, str):
        raise RehearsalError(f"the rehearsal with {name} could not be finished: {found}")
    return found


def _plan(source: AssignmentSource, cells: list[RehearsedCell], model: NotebookGrade) -> JudgingPlan:
    one = source.with_dependents(cell.id for cell in cells if cell.process == "one")
    nobody = {cell.id: cell.remark for cell in cells if cell.process == "nobody"}
    keeps = {cell.id for cell in cells if cell.process == "two"} - model.wrote_inputs
    return JudgingPlan(one=one - nobody.keys(), nobody=nobody, keeps_inputs=frozenset(keeps - one))
