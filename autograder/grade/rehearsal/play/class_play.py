"""Plays a class before there is one: mutants of the model answers and cheats are graded as hand-ins, test by test."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from autograder.grade.rehearsal.hand_in_variants import Variant, grade_variants, model_answers, with_answers
from autograder.grade.rehearsal.play.behaviour import UncaughtMutant
from autograder.grade.rehearsal.play.cheats import cheated, cheats
from autograder.grade.rehearsal.play.mutants import Mutant, mutants
from autograder.grade.rehearsal.play.visible_values import VisibleValues
from autograder.grade.rehearsal.rehearsal import Rehearsal
from autograder.grade.rehearsal.rehearsal_steps import OnStep, unseen
from autograder.grade.submission.cell_analysis import bound_names, statements
from autograder.grade.submission.notebook_grade import NotebookGrade
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.where.grading_job import Graders

WORD = re.compile(r"\w+")  # a test may name an answer in a string
CONTROL = "model answers"

Graded = NotebookGrade | str
Compare = Callable[[Sequence[UncaughtMutant]], list[str]]


class PassingMutant(NamedTuple):
    """An edited model answer that keeps full marks, and in what it differs from the model answer."""

    answer: str
    edit: str
    difference: str


class ClassPlay(NamedTuple):
    """What the played class got.

    Attributes:
        possible: how many mutants there are.
        tried: how many were graded, drawn from all.
        refused: how many of these lost points.
        alike: how many got full marks and do what the model answer does.
        passing: those that got full marks although they do something else.
        cheats: how many cheats were graded.
        cheated: for each test that gave points to cheats, their names.
        note: why the play says nothing, "" if it says something.
    """

    possible: int = 0
    tried: int = 0
    refused: int = 0
    alike: int = 0
    passing: tuple[PassingMutant, ...] = ()
    cheats: int = 0
    cheated: Mapping[str, tuple[str, ...]] = {}
    note: str = ""


class Director:
    """Makes the class's hand-ins from the model answers, and says what their grades mean.

    Args:
        source: the teacher's notebook.
        rehearsal: of this source; only tests that give the model answers full marks are looked at.
    """

    def __init__(self, source: AssignmentSource, rehearsal: Rehearsal) -> None:
        self._source, self._plan = source, rehearsal.plan
        cells = [cell for cell in rehearsal.cells if cell.max_points and cell.process != "nobody"]
        self._tests = [cell.id for cell in cells if cell.model == cell.max_points]
        self._earned = [cell.id for cell in cells if cell.id in self._tests and not cell.untouched]
        self._visible = VisibleValues(_plain(cell.visible) for cell in source.tests)
        self._uses_tensors = any("torch" in cell.text for cell in source.cells)
        answers = {
            cell.id: _plain(cell.full)
            for cell in source.cells
            if cell.kind == "answer" and cell.cell.cell_type == "code"
        }
        self._answers = {answer: text for answer, text in answers.items() if self._is_judged(text)}

    def play(self, processes: Graders, compare: Compare, sample: int, on_step: OnStep = unseen) -> ClassPlay:
        """Grades a sample of the mutants, the same ones each time, and every cheat.

        Args:
            processes: where hand-ins are graded.
            compare: says in what mutants differ from the model answer, "" where they do not.
            sample: how many mutants to grade.
            on_step: called when one of the hand-ins is begun.
        """
        every = list(self._mutants())
        tried = random.Random(0).sample(every, min(sample, len(every)))
        names = [f"mutant {number}, {answer}: {mutant.edit}" for number, (answer, mutant) in enumerate(tried, 1)]
        variants = [
            self._variant(name, {answer: mutant.source}) for name, (answer, mutant) in zip(names, tried, strict=True)
        ]
        control = Variant(CONTROL, model_answers(self._source), self._plan)
        grades = grade_variants(self._source, [control, *variants, *self._cheating()], processes, on_step)
        if not self._has_full_marks(grades[CONTROL]):
            return ClassPlay(
                note="the model answers were too slow for a played class, so mutants and cheats say nothing"
            )
        left = [chosen for name, chosen in zip(names, tried, strict=True) if self._has_full_marks(grades[name])]
        found = compare([UncaughtMutant(answer, mutant.source) for answer, mutant in left])
        pairs = zip(left, found, strict=True)
        passing = tuple(PassingMutant(answer, mutant.edit, what) for (answer, mutant), what in pairs if what)
        return ClassPlay(
            possible=len(every),
            tried=len(tried),
            refused=len(tried) - len(left),
            alike=len(left) - len(passing),
            passing=passing,
            cheats=len(grades) - len(tried) - 1,
            cheated=self._cheated(grades),
        )

    def _mutants(self) -> Iterator[tuple[str, Mutant]]:
        for answer, text in self._answers.items():
            for mutant in mutants(text, tensors=self._uses_tensors):
                yield answer, mutant

    def _cheating(self) -> Iterator[Variant]:
        for cheat in cheats(self._visible):
            yield self._variant(cheat.name, {answer: cheated(text, cheat) for answer, text in self._answers.items()})

    def _variant(self, name: str, answers: dict[str, str]) -> Variant:
        model = {cell.id: cell.full for cell in self._source.cells if cell.is_learners}
        return Variant(name, with_answers(self._source, model | answers), self._plan)

    def _cheated(self, grades: Mapping[str, Graded]) -> dict[str, tuple[str, ...]]:
        names = [cheat.name for cheat in cheats(self._visible)]
        paid = {test: tuple(name for name in names if _points(grades[name], test)) for test in self._earned}
        return {test: found for test, found in paid.items() if found}

    def _has_full_marks(self, graded: Graded) -> bool:
        return all(_points(graded, test) == self._source.by_id[test].points for test in self._tests)

    def _is_judged(self, answer: str) -> bool:
        """Returns whether a test looks at an answer, and gives the model answer full marks."""
        names = {name for statement in statements(answer) for name in bound_names(statement)}
        looking = {cell.id for cell in self._source.tests if names & set(WORD.findall(cell.text))}
        return bool(names) and (not looking or bool(looking & set(self._tests)))


def _points(graded: Graded, test: str) -> float:
    return 0.0 if isinstance(graded, str) else graded.cells[test].points or 0.0


def _plain(text: str) -> str:
    """Returns a cell's text with magics turned into Python; "" if it is not Python."""
    return ast.unparse(ast.Module(list(statements(text)), []))
