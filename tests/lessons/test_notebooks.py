"""Every released notebook runs in a kernel, as handed out and with right answers, and within its time."""

import time
from pathlib import Path

import nbclient
import pytest

from autograder.course import catalogue
from autograder.course.canonical import read
from autograder.course.paths import NOTEBOOKS, SOLUTIONS, lessons
from tests.lessons.solving import answered, errors, right_answers
from tests.lessons.sources import exercises

LESSONS = [path.relative_to(NOTEBOOKS) for path in lessons(NOTEBOOKS)]
SECONDS_A_LESSON = 20  # on a machine that does nothing else


def in_a_kernel(lesson: Path, answers: str):
    """Return a notebook as a parameter; `test` runs one as it is handed out, `test --all` every one, also with answers."""
    marks = [] if (lesson.stem, answers) == ("02_mutating_a_saved_tensor", "stub") else [pytest.mark.slow]
    return pytest.param(lesson, answers, id=f"{lesson.stem}-{answers}", marks=marks)


KERNELS = [in_a_kernel(lesson, answers) for answers in ("stub", "answer") for lesson in LESSONS]


@pytest.mark.thorough
@pytest.mark.parametrize(("lesson", "answers"), KERNELS)
def test_a_notebook_runs_from_top_to_bottom(lesson, answers):
    """In the release every exercise is "not attempted" and nothing else fails; with right answers nothing fails."""
    source, notebook = SOLUTIONS / lesson, read(NOTEBOOKS / lesson)
    if answers == "answer":
        notebook = answered(notebook, right_answers(source))
    started = time.monotonic()
    nbclient.NotebookClient(notebook, timeout=180, allow_errors=True).execute()
    seconds = time.monotonic() - started

    expected = {} if answers == "answer" else {exercise.id: "NotAttempted" for exercise in exercises(source)}
    assert expected == errors(notebook.cells)
    stderr = [o.text for c in notebook.cells for o in c.get("outputs", []) if o.get("name") == "stderr"]
    assert [] == stderr
    print(f"{lesson.stem}: {seconds:.1f} s")
    assert seconds < 9 * SECONDS_A_LESSON  # a hang or a lesson grown out of bounds, not a busy machine


@pytest.mark.parametrize("lesson", catalogue.lessons(), ids=lambda lesson: lesson.name)
def test_a_lesson_opens_with_its_aims_and_closes_with_what_was_shown(lesson):
    """Three lines state the aims; the same three are repeated at the end, marked only by passed exercises."""
    path = SOLUTIONS / lesson.name / f"{lesson.name}.ipynb"
    cells = read(path).cells
    aims = [line[2:].rstrip(";.").replace("`", "") for line in cells[0].source.splitlines() if line.startswith("- ")]
    checks = {exercise.id for exercise in exercises(path)}

    assert [aim.can for aim in lesson.aims] == aims
    assert f'can_now("{lesson.name[:2]}")' == cells[-1].source
    assert all(aim.shown_by and set(aim.shown_by) <= checks for aim in lesson.aims)
