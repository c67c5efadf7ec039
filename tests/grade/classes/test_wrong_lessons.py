"""Wrong answers to the course's own lessons are judged, each in the isolated mode, and never left for a person."""

from __future__ import annotations

import nbformat
import pytest

from autograder.course import catalogue
from autograder.course.canonical import read
from autograder.course.paths import NOTEBOOKS, SOLUTIONS
from autograder.grade.submission.submission_grader import SubmissionGrader
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.tape.recording.verdict_types import OUTCOMES
from tests.fixture_class.submissions import Lesson
from tests.grade.conftest import LIMITS

QUICK = "02_mutating_a_saved_tensor"
LESSONS = sorted(
    path.name for path in SOLUTIONS.iterdir() if (path / f"{path.name}.ipynb").exists() and path.name[0].isdigit()
)


@pytest.mark.parametrize(
    "name", [name if name == QUICK else pytest.param(name, marks=pytest.mark.slow) for name in LESSONS]
)
def test_each_prediction_has_one_right_outcome_and_wrong_programs_have_no_points(name, server):
    """Of four submissions with one outcome each, exactly one gets each prediction right; other answers are incorrect with a message."""
    file = f"{name}/{name}.ipynb"
    lesson = Lesson(SOLUTIONS / file, NOTEBOOKS / file)
    programs = {one.id: one.of_kind("wrong")[0].source for one in lesson.exercises.values() if one.answers}
    predictions = [one for one in lesson.exercises if one.startswith("prediction_") and one not in programs]
    source, grader = AssignmentSource(name, read(SOLUTIONS / file)), SubmissionGrader(server, LIMITS)
    earned: dict[str, list[float]] = {one: [] for one in predictions}
    for outcome in OUTCOMES:
        answers = programs | {one: f'{one} = "{outcome}"' for one in predictions}
        cells = grader.grade(source, nbformat.writes(lesson.answered(answers)).encode(), {}).cells
        assert {one: (cells[one].status, cells[one].points) for one in programs} == dict.fromkeys(
            programs, ("incorrect", 0.0)
        )
        for one in predictions:
            assert cells[one].status in ("correct", "incorrect"), cells[one].reason
            earned[one].append(cells[one].points)
    known = next(known.predictions for known in catalogue.lessons() if known.name == name)
    of_outcomes = [
        one for one in predictions if set(known.get(one, ())) <= set(OUTCOMES) and one in known
    ]  # the others ask for a value, or for three outcomes together
    assert {one: sum(map(bool, earned[one])) for one in of_outcomes} == dict.fromkeys(of_outcomes, 1)
