"""Every line of every clinic program is tried as the answer: those that harm pass, and no other does."""

import ast

import pytest

from autograder.check.message import Incorrect
from autograder.course.author_cells import questions_of
from autograder.course.paths import SOLUTIONS, lessons
from autograder.course.variants.variant_proof import CellNamespace as Namespace
from autograder.tape import record
from autograder.tape.recording.schema import Recording
from autograder.view.notebook import drawn_mimebundle
from tests.lessons.solving import verdict
from tests.lessons.sources import exercises, setup

CULPRITS = [
    pytest.param(path, exercise, id=exercise.id)
    for path in lessons(SOLUTIONS)
    for exercise in exercises(path)
    if "\nculprit(" in exercise.check
]


def recorded(path, exercise) -> Recording:
    """Return the recording of the cell's program."""
    learner = Namespace()
    learner.run(setup(path))
    (question,) = questions_of(exercise.check)
    learner.run(question.program)
    return record(learner.names[ast.parse(question.program).body[0].name])


def harmful_lines(path, exercise) -> set[str]:
    """Return the lines that the recording of the cell's program blames."""
    return {place.text for harm in recorded(path, exercise).verdict.harms for place in harm.mutated_at}


@pytest.mark.parametrize(("path", "exercise"), CULPRITS)
def test_its_picture_takes_little_of_a_saved_notebook(path, exercise):
    """The largest programs of the course, each drawn with its verdict in all its saved forms: at most 30 kB."""
    assert 30_000 >= sum(len(form.encode()) for form in drawn_mimebundle(recorded(path, exercise)).values())


@pytest.mark.parametrize(("path", "exercise"), CULPRITS)
def test_exactly_the_harmful_lines_pass(path, exercise, monkeypatch):
    """Each line of the program is named in turn; one line is the culprit, and its neighbors are not."""
    harmful = harmful_lines(path, exercise)
    name = exercise.stub.partition(" ")[0]
    (question,) = questions_of(exercise.check)
    lines = [line.strip() for line in question.program.splitlines()[1:] if line.strip()]
    verdicts = {line: verdict(path, exercise, f"{name} = {line!r}") for line in dict.fromkeys(lines)}
    assert harmful == {line for line, verdict in verdicts.items() if verdict is None}
    assert 1 == len(harmful)
    assert {Incorrect} == {type(verdict) for verdict in verdicts.values() if verdict is not None}
