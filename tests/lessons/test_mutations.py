"""A score for the checks: small edits of every right answer are refused, unless they are right all the same.

An edit that passes its check is judged again by plain PyTorch and finite differences on other inputs (`rightness.py`). Where
these find it wrong the check is too weak, and the test fails with the edit. The score of a lesson is the share of wrong
edits that its checks refused.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest
import torch

from autograder.check.message import Unsolved
from autograder.check.plan import Plan, planning
from autograder.check.subject.inputs import use_seed
from autograder.course.author_cells import AuthorExercise
from autograder.course.paths import SOLUTIONS, lessons
from autograder.grade.validation.mutants import Mutant, mutants
from tests.lessons.rightness import Judge
from tests.lessons.sources import exercises, setup

torch.set_num_threads(1)  # for a few numbers a second thread only waits

LESSONS = {
    path.parent.name: (setup(path), [exercise for exercise in exercises(path) if exercise.answers])
    for path in lessons(SOLUTIONS)
    if any(exercise.answers for exercise in exercises(path))
}


class Tried(NamedTuple):
    """One mutant, whether its check refused it, and the verdict's first line."""

    exercise: str
    mutant: Mutant
    refused: bool
    verdict: str


def tried(exercise: AuthorExercise, judge: Judge) -> list[Tried]:
    """Return the verdict of the exercise's check on each mutant of its right answers."""
    with use_seed(1), planning() as plans:
        judge.after("").run(exercise.check)
    return [
        Tried(exercise.id, mutant, *verdict(mutant, judge, plans)) for mutant in dict.fromkeys(mutants_of(exercise))
    ]


def verdict(mutant: Mutant, judge: Judge, plans: list[Plan]) -> tuple[bool, str]:
    """Return whether the check rejects the mutant, and its message; an answer that does not run never passes."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            answer = judge.after(mutant.source)
            for plan in plans:
                plan.compare(answer)
        except Unsolved as refusal:
            return True, str(refusal).splitlines()[0]
        except Exception as error:
            return True, repr(error)
    return False, ""


def mutants_of(exercise: AuthorExercise) -> Iterator[Mutant]:
    """Yield the mutants of all right answers."""
    for answer in exercise.of_kind("answer", "right"):
        yield from mutants(answer.source)


@pytest.mark.slow
@pytest.mark.parametrize("name", LESSONS)
def test_every_wrong_edit_is_refused(name, capsys):
    """No edit of a right answer passes its check and is wrong; the lesson's score is printed."""
    imports, all_exercises = LESSONS[name]
    refused, equivalent, weak = 0, 0, []
    for exercise in all_exercises:
        judge = Judge(exercise, imports)
        for result in tried(exercise, judge):
            refused += result.refused
            if not result.refused and judge.is_right(result.mutant.source):
                equivalent += 1
            elif not result.refused:
                weak.append(f"{result.exercise}: {result.mutant.edit}\n{result.mutant.source}")
    with capsys.disabled():
        score = refused / (refused + len(weak))
        print(f"\n{name}: {score:.1%} of {refused + len(weak)} wrong edits refused; {equivalent} more were right")
    assert refused > 20
    assert [] == weak, "\n".join(weak)


@pytest.mark.parametrize("name", LESSONS)
def test_the_oracle_agrees_with_the_author(name):
    """Plain PyTorch and finite differences agree with the author about right and wrong; cost and forbidden words are ignored."""
    imports, all_exercises = LESSONS[name]
    for exercise in all_exercises:
        judge = Judge(exercise, imports)
        right = [answer.name for answer in exercise.of_kind("answer", "right") if judge.is_right(answer.source)]
        costly = ("copies more than it needs to", "this name is not allowed here")
        wrong = [a.name for a in exercise.of_kind("wrong") if a.phrase not in costly and judge.is_right(a.source)]
        if "predicted(" not in exercise.check:
            assert [answer.name for answer in exercise.of_kind("answer", "right")] == right
        assert [] == wrong


def test_a_check_that_looks_at_values_only_is_found_weak():
    """The score can fall: with a check that forgets the gradients, edits that cut the graph survive and are reported."""
    imports, all_exercises = LESSONS["02_mutating_a_saved_tensor"]
    exercise = next(exercise for exercise in all_exercises if exercise.id == "shifted_exp")
    judge = Judge(exercise, imports)
    blind = replace(exercise, check=exercise.check.replace('w=leaf("n", 2)', 'w=constant("n", 2)'))
    survivors = [result.mutant for result in tried(blind, judge) if not result.refused]
    assert any(mutant.edit.startswith("detaches") and not judge.is_right(mutant.source) for mutant in survivors)
