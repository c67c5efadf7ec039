"""Submissions that are made from a source, and their grades: the model answers, the release, and others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import nbformat
from nbformat import NotebookNode

from autograder.grade.submission.notebook_grade import NotebookGrade
from autograder.grade.submission.teacher.grading_plan import GradingPlan
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.where.grading_job import Graders, Job


@dataclass(frozen=True)
class MadeUpSubmission:
    """One submission of a source.

    Attributes:
        name: different from those of all others that are graded with it.
        notebook: the submitted notebook.
        plan: how each test is judged.
    """

    name: str
    notebook: NotebookNode
    plan: GradingPlan


@dataclass(frozen=True)
class ValidationStep:
    """A made-up submission whose grading begins.

    Attributes:
        notebook: the source's name.
        submission: the name of the made-up submission.
        number: from 1.
        total: the number of made-up submissions.
    """

    notebook: str
    submission: str
    number: int
    total: int


OnStep = Callable[[ValidationStep], None]


def ignore_step(_: ValidationStep) -> None:
    """Show nothing."""


def model_answers(source: AssignmentSource) -> NotebookNode:
    """Return the source with its model answers."""
    return with_answers(source, {cell.id: cell.full for cell in source.cells if cell.is_learners})


def release(source: AssignmentSource) -> NotebookNode:
    """Return the notebook as students get it."""
    return with_answers(source, {})


def with_answers(source: AssignmentSource, answers: Mapping[str, str]) -> NotebookNode:
    """Return a submission with these texts in the answer cells, by grade_id, and the released text in all others."""
    cells = []
    for cell in source.cells:
        make = nbformat.v4.new_code_cell if cell.cell.cell_type == "code" else nbformat.v4.new_markdown_cell
        known = {key: cell.cell.metadata[key] for key in ("nbgrader",) if key in cell.cell.metadata}
        cells.append(make(answers.get(cell.id, cell.visible) if cell.id else cell.visible, metadata=known))
    return nbformat.v4.new_notebook(cells=cells)


def grade_submissions(
    source: AssignmentSource, submissions: Sequence[MadeUpSubmission], graders: Graders, on_step: OnStep = ignore_step
) -> list[NotebookGrade | str]:
    """Return the grade of each submission, or the reason why the grader itself failed.

    Raises:
        IsolationError: the sandbox does not start.
    """

    def jobs() -> Iterator[Job]:
        for number, made_up in enumerate(submissions, 1):
            on_step(ValidationStep(source.name, made_up.name, number, len(submissions)))
            yield Job(
                made_up.name,
                source.name,
                nbformat.writes(made_up.notebook).encode(),
                source.student_files,
                made_up.plan,
            )

    results = {result.student: result.grade or result.failure for result in graders.grade(jobs())}  # as they finish
    return [results[made_up.name] for made_up in submissions]
