"""Every exercise of every lesson is proven: its stub, its right answers, and its named wrong ones."""

import re

import pytest

from autograder.check.message import Incorrect, NotAttempted
from autograder.course import catalogue
from autograder.course.paths import SOLUTIONS, lessons
from tests.lessons.solving import candidates, verdict
from tests.lessons.sources import exercises

LESSONS = {path.parent.name: path for path in lessons(SOLUTIONS)}
EXERCISES = [
    pytest.param(path, exercise, id=exercise.id)
    for path in LESSONS.values()
    for exercise in exercises(path)
    if exercise.answers
]
ANSWERS = [
    pytest.param(path, exercise, answer, id=f"{exercise.id}: {answer.name}")
    for path in LESSONS.values()
    for exercise in exercises(path)
    for answer in exercise.answers
]
GUESSES = [
    pytest.param(path, exercise, id=exercise.id)
    for path in LESSONS.values()
    for exercise in exercises(path)
    if not exercise.answers
]


@pytest.mark.parametrize(("path", "exercise"), EXERCISES)
def test_what_is_handed_out_is_not_attempted(path, exercise):
    """An untouched exercise is not attempted, and gives no marks."""
    assert NotAttempted is type(verdict(path, exercise, exercise.stub))


@pytest.mark.parametrize(("path", "exercise", "answer"), ANSWERS)
def test_each_answer_gets_what_the_author_says(path, exercise, answer):
    """Right answers pass; a wrong one is refused in the words that the author promises."""
    raised = verdict(path, exercise, answer.source)
    if answer.kind != "wrong":
        assert raised is None, raised
        return
    assert Incorrect is type(raised)
    assert answer.phrase in re.sub(r"\s+", " ", str(raised))
    assert max(map(len, str(raised).splitlines())) <= 76


@pytest.mark.parametrize(("path", "exercise"), EXERCISES)
def test_each_exercise_has_enough_answers(path, exercise):
    """Each exercise has one model answer, at least one other right one, and at least four wrong ones."""
    assert 1 == len(exercise.of_kind("answer"))
    assert 1 <= len(exercise.of_kind("right"))
    assert 4 <= len(exercise.of_kind("wrong"))


@pytest.mark.parametrize(("path", "exercise"), GUESSES)
def test_a_prediction_is_held_against_the_run(path, exercise):
    """Exactly one possible answer passes (for lines of a program, not all are tried); a missing prediction is not attempted."""
    assert NotAttempted is type(verdict(path, exercise, exercise.stub))
    tried = [verdict(path, exercise, answer) is None for answer in candidates(exercise)]
    assert 1 <= sum(tried) < len(tried)
    assert "culprit(" in exercise.check or 1 == sum(tried)


@pytest.mark.parametrize("name", sorted(LESSONS.keys() - {"start"}))
def test_the_catalogue_knows_each_lesson(name):
    """Title, time and three hints for each exercise: no more exercises and no fewer than the notebook has."""
    lesson = {lesson.name: lesson for lesson in catalogue.lessons()}[name]
    ids = [exercise.id for exercise in exercises(LESSONS[name]) if exercise.answers]
    assert ids == [exercise.id for exercise in lesson.exercises]
    assert all(hint.strip() for exercise in lesson.exercises for hint in exercise.hints)
