"""Hand-ins that are made from a source, and their grades: the model answers, the notebook as handed out, and others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode

from autograder.grade.rehearsal.rehearsal_steps import OnStep, RehearsalStep, unseen
from autograder.grade.submission.notebook_grade import NotebookGrade
from autograder.grade.submission.teacher.judging_plan import JudgingPlan
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.where.grading_job import Graders, Job


class Variant(NamedTuple):
    """One hand-in of a source.

    Attributes:
        name: says which it is; different from all others that are graded with it.
        notebook: the hand-in.
        plan: in which process each test is judged.
    """

    name: str
    notebook: NotebookNode
    plan: JudgingPlan = JudgingPlan()


def model_answers(source: AssignmentSource) -> NotebookNode:
    """Returns the source with its model answers."""
    return with_answers(source, {cell.id: cell.full for cell in source.cells if cell.is_learners})


def as_handed_out(source: AssignmentSource) -> NotebookNode:
    """Returns the notebook as learners get it."""
    return with_answers(source, {})


def with_answers(source: AssignmentSource, answers: Mapping[str, str]) -> NotebookNode:
    """Returns a hand-in with these texts in the answer cells, by grade_id, and what was handed out in all others."""
    cells = []
    for cell in source.cells:
        make = nbformat.v4.new_code_cell if cell.cell.cell_type == "code" else nbformat.v4.new_markdown_cell
        known = {key: cell.cell.metadata[key] for key in ("nbgrader",) if key in cell.cell.metadata}
        cells.append(make(answers.get(cell.id, cell.visible) if cell.id else cell.visible, metadata=known))
    return nbformat.v4.new_notebook(cells=cells)


def grade_variants(
    source: AssignmentSource, variants: Sequence[Variant], processes: Graders, on_step: OnStep = unseen
) -> dict[str, NotebookGrade | str]:
    """Returns the grade of each variant by its name, or why the grader itself failed with it.

    Args:
        source: the teacher's notebook.
        variants: the hand-ins.
        processes: where they are graded.
        on_step: called when one of them is begun.

    Raises:
        IsolationError: the servers do not start.
    """

    def jobs() -> Iterator[Job]:
        for number, one in enumerate(variants, 1):
            on_step(RehearsalStep(source.name, one.name, number, len(variants)))
            yield Job(one.name, source.name, nbformat.writes(one.notebook).encode(), {}, one.plan)

    return {result.student: result.grade or result.failure for result in processes.grade(jobs())}
