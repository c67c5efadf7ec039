"""`play(...)`: each program of the lessons is found by its name, with its inputs."""

from __future__ import annotations

import pytest
import torch

from autograder.check.playground.arrangement import run
from autograder.course.learner.after_success import play
from autograder.course.learner.exercise_programs import find_program, input_lines, program_of
from autograder.course.paths import NOTEBOOKS, lessons
from autograder.errors import InputError
from autograder.locale.languages import use_language
from tests.lessons.sources import exercises

EXERCISES = [found for path in lessons(NOTEBOOKS) for found in exercises(path)]


def test_most_programs_of_the_course_can_be_played_with():
    """Every one that is a function is; modules and plain values are refused in a sentence."""
    refused = {}
    for exercise in EXERCISES:
        try:
            program_of(exercise)
        except InputError as error:
            refused[exercise.id] = str(error)
    assert 0 < len(refused) < len(EXERCISES) / 3
    assert all("lines" in reason for reason in refused.values())


@pytest.mark.parametrize(
    ("name", "outcome"), [("item_written", "raises-backward"), ("fresh_state", "raises-backward"), ("drain", "correct")]
)
def test_a_program_does_what_the_lesson_says(name, outcome):
    """A prediction by its function's name, an exercise by its id: as given, they run with that outcome."""
    program = find_program(name)
    assert outcome == run(program, program.as_given, {}, 2.0).verdict.outcome


def test_inputs_are_of_their_kinds():
    """A leaf, the result of a leaf, a constant, indices and numbers, each as the check draws it, with small sizes."""
    check = 'check("f", like=g, w=leaf("n"), h=result("n", 3), c=constant(2), i=indices("n", below=3), width=4)'
    space: dict = {"torch": torch}
    exec("\n".join(input_lines(check)), space)
    assert (space["w"].is_leaf, space["w"].requires_grad, (2,)) == (True, True, tuple(space["w"].shape))
    assert (space["h"].is_leaf, space["h"].requires_grad, (2, 3)) == (False, True, tuple(space["h"].shape))
    assert not space["c"].requires_grad
    assert not space["i"].is_floating_point()
    assert 4 == space["width"]


def test_a_name_that_is_not_there_is_answered_with_the_nearest(capsys):
    """A slip in the name gets a suggestion, and no error."""
    play("drian")
    assert "There is no program 'drian'. Did you mean 'drain'?" in capsys.readouterr().out
    with use_language("zh-CN"):
        play("drian")
    assert "没有叫 'drian' 的程序。你指的是 'drain' 吗？" in capsys.readouterr().out
