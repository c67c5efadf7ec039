"""The mutation test of a source: which mutants of its model answers keep full points, and which trivial answers get points."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from autograder.grade.submission.cell_analysis import bound_names, statements
from autograder.grade.submission.notebook_grade import CellGrade
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.validation.made_up_submissions import (
    MadeUpSubmission,
    OnStep,
    grade_submissions,
    ignore_step,
    with_answers,
)
from autograder.grade.validation.mutants import mutants
from autograder.grade.validation.trivial_answers import made_trivial, trivial_answers
from autograder.grade.validation.validate import SourceReport, over_maximum
from autograder.grade.where.grading_job import Graders
from autograder.grade.wire.limits import Limits

CELL_SECONDS = 10.0  # a mutant may never end
SUBMISSION_SECONDS = 40.0
SHOWN = 8  # of the mutants that pass
WORD = re.compile(r"\w+")  # a test may name an answer in a string


@dataclass(frozen=True)
class MutationReport:
    """The result of a mutation test.

    Attributes:
        possible: the number of mutants of the model answers.
        tried: the number of those that were graded, drawn from all.
        passing: the names of those that got full points.
        trivial: the number of trivial answers that were graded.
        paid: for each test that gave points to trivial answers, their names.
        over_maximum: the number on a test's last line that is more than its maximum, where only this run found one.
        too_slow: whether the model answers exceeded the limits of a mutation test, so that it says nothing.
    """

    possible: int = 0
    tried: int = 0
    passing: tuple[str, ...] = ()
    trivial: int = 0
    paid: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    over_maximum: Mapping[str, float] = field(default_factory=dict)
    too_slow: bool = False

    @property
    def lines(self) -> Iterator[str]:
        """The figures, then what the teacher should look at: weak tests before mutants that pass."""
        if self.too_slow:
            yield "the model answers are too slow for a mutation test, so mutants and trivial answers say nothing"
            return
        yield f"mutants of the model answers: {self.tried} of {self.possible} tried, {len(self.passing)} pass all tests"
        yield f"trivial answers: {self.trivial} tried, {len(self.paid)} tests give points to some"
        for test, names in self.paid.items():
            yield f"{test}: this test gives points to {', '.join(names)}; add an input for which that is wrong"
        for test, number in self.over_maximum.items():
            yield f"{test}: {over_maximum(number)}"
        yield from (f"{name} passes; look at it" for name in self.passing[:SHOWN])
        if len(self.passing) > SHOWN:
            yield f"and {len(self.passing) - SHOWN} more mutants pass"


def short_limits(limits: Limits) -> Limits:
    """Return the limits for mutants, some of which never end."""
    return msgspec.structs.replace(
        limits,
        cell_seconds=min(limits.cell_seconds, CELL_SECONDS),
        submission_seconds=min(limits.submission_seconds, SUBMISSION_SECONDS),
    )


def mutation_test(
    source: AssignmentSource, report: SourceReport, graders: Graders, sample: int, on_step: OnStep = ignore_step
) -> MutationReport:
    """Grade a sample of the mutants of a source's model answers, the same ones each time, and every trivial answer.

    Args:
        source: the teacher's notebook.
        report: of this source; only tests that give its model answers full points are looked at.
        graders: where the submissions are graded, with `short_limits`.
        sample: how many mutants to grade.
        on_step: called when the grading of a made-up submission begins.

    Raises:
        IsolationError: the sandbox does not start.
    """
    cells = [cell for cell in report.cells if cell.kind and cell.max_points and cell.model == cell.max_points]
    answers = dict(_tested_answers(source, {cell.id for cell in cells}))
    tensors = any("torch" in cell.text for cell in source.cells)
    every = [(answer, mutant) for answer, text in answers.items() for mutant in mutants(text, tensors=tensors)]
    tried = random.Random(0).sample(every, min(sample, len(every)))
    trivial = trivial_answers((_plain(cell.visible) for cell in source.tests), tensors=tensors)
    changes = {"model answers": dict[str, str]()}
    changes |= {
        f"mutant {i}, {answer}: {mutant.edit}": {answer: mutant.source} for i, (answer, mutant) in enumerate(tried, 1)
    }
    changes |= {
        known.name: {answer: made_trivial(text, known) for answer, text in answers.items()} for known in trivial
    }
    model = {cell.id: cell.full for cell in source.cells if cell.is_learners}
    submissions = [
        MadeUpSubmission(name, with_answers(source, model | changed), report.plan) for name, changed in changes.items()
    ]
    graded = grade_submissions(source, submissions, graders, on_step)
    grades = {name: {} if isinstance(grade, str) else grade.cells for name, grade in zip(changes, graded, strict=True)}
    passing = [
        name for name, tests in grades.items() if all(_points(tests, cell.id) == cell.max_points for cell in cells)
    ]
    if "model answers" not in passing:
        return MutationReport(too_slow=True)
    names = [known.name for known in trivial]
    paid = {
        cell.id: tuple(name for name in names if _points(grades[name], cell.id)) for cell in cells if not cell.release
    }
    numbers = {
        cell.id: max((tests[cell.id].over_maximum or 0.0 for tests in grades.values() if tests), default=0.0)
        for cell in report.cells
        if cell.over_maximum is None
    }
    return MutationReport(
        possible=len(every),
        tried=len(tried),
        passing=tuple(name for name in passing if name.startswith("mutant ")),
        trivial=len(trivial),
        paid={test: found for test, found in paid.items() if found},
        over_maximum={test: number for test, number in numbers.items() if number},
    )


def _points(tests: Mapping[str, CellGrade], test: str) -> float:
    return tests[test].points or 0.0 if test in tests else 0.0


def _tested_answers(source: AssignmentSource, tests: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the model answers that one of these tests looks at, by grade_id; also those that no test names."""
    for cell in source.cells:
        if cell.kind != "answer" or cell.cell.cell_type != "code":
            continue
        text = _plain(cell.full)
        names = {name for statement in statements(text) for name in bound_names(statement)}
        looking = {test.id for test in source.tests if names & set(WORD.findall(test.text))}
        if names and (not looking or looking & tests):
            yield cell.id, text


def _plain(text: str) -> str:
    """Return a cell's text with magics turned into Python; nothing if it is not Python."""
    return ast.unparse(ast.Module(list(statements(text)), []))
