"""After a wrong answer, a notebook shows what autograd held while that answer ran: its own lines, the write that harmed lit."""

import re

import pytest

from autograder.check import attempt_picture
from autograder.check.message import Incorrect
from autograder.course.author_cells import exercises
from autograder.course.paths import SOLUTIONS, lessons
from autograder.view.notebook import drawn_mimebundle
from autograder.view.scene.composition import build_scene
from tests.lessons.solving import verdict

WRONG = [
    pytest.param(path, exercise, answer, id=f"{exercise.id}: {answer.name}")
    for path in lessons(SOLUTIONS)
    for exercise in exercises(path)
    if re.search(r"^check\(", exercise.check, re.MULTILINE)
    for answer in exercise.of_kind("wrong")
]


@pytest.fixture
def shown(monkeypatch):
    """Returns the recordings that checks show, as a notebook would draw them."""
    recordings = []
    monkeypatch.setattr(attempt_picture, "draws_here", lambda: True)
    monkeypatch.setattr(attempt_picture, "show", recordings.append)
    return recordings


@pytest.mark.parametrize(("path", "exercise", "answer"), WRONG)
def test_each_wrong_answer_has_its_picture(path, exercise, answer, shown, capsys):
    """Where a write harmed, the message names the learner's own line, and the picture opens at it; the saved form is small."""
    raised = verdict(path, exercise, answer.source)
    assert Incorrect is type(raised)
    told = " ".join(str(raised).split())
    if "not allowed here" in told or "own function" in told:
        return
    assert [1] == [len(shown)]
    (recording,) = shown
    assert set(recording.programs[0].source.splitlines()) >= set(answer.source.splitlines())
    assert 30_000 >= sum(len(form.encode()) for form in drawn_mimebundle(recording).values())
    assert f"\n{exercise.id}: " in "\n" + capsys.readouterr().out
    if "writes into the memory of" in told:
        line = int(re.search(r"look at line (\d+): ", told).group(1))
        harmful = {place.line for harm in recording.verdict.harms for place in harm.mutated_at}
        scene = build_scene(recording)
        assert line in harmful
        assert scene.frames[scene.start].line in {f"line0.{number}" for number in harmful}
    elif "backward refuses a saved tensor" in told:
        pytest.fail(f"no line is named: {told}")
