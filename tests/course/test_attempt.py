"""`check NOTEBOOK` and the other commands, as they answer in a terminal."""

import nbformat
import pytest

from autograder.cli import main
from autograder.course.attempt import ExerciseResult, attempt
from autograder.course.paths import NOTEBOOKS, ROOT, SOLUTIONS
from tests.commands import autograder
from tests.fixture_class.submissions import Lesson
from tests.grade import plain_course

NOTEBOOK = "02_mutating_a_saved_tensor/02_mutating_a_saved_tensor.ipynb"


@pytest.mark.parametrize(("words", "told"), [
    pytest.param(["nonsense"], "invalid choice: 'nonsense'", id="no such verb"),
    pytest.param(["check", "missing.ipynb"], "There is no notebook missing.ipynb", id="missing notebook"),
    pytest.param(["check", "README.md"], "README.md is not JSON", id="no JSON"),
    pytest.param(["lab", "no_such_lesson"], "'no_such_lesson' matches no lesson", id="no such lesson"),
    pytest.param(["lab", "--port", "70000", "--no-browser"], "port 70000 is taken or not allowed", id="no such port"),
])  # fmt: skip
def test_bad_input_gets_one_sentence(words, told):
    """One line with the input and a solution, and an exit code other than 0."""
    done = autograder(*words, cwd=ROOT)
    assert 2 == done.returncode
    assert told in done.stderr
    assert 1 == len(done.stderr.strip().splitlines())


@pytest.mark.parametrize(("kind", "code"), [("answer", 0), pytest.param("stub", 1, marks=pytest.mark.slow)])
def test_check_says_whether_all_passes(tmp_path, kind, code):
    """Model answers end with 0 and all points; the lesson as handed out ends with 1 and "not attempted" everywhere."""
    lesson = Lesson(SOLUTIONS / NOTEBOOK, NOTEBOOKS / NOTEBOOK)
    notebook = lesson.answered(lesson.right()) if kind == "answer" else lesson.released
    nbformat.write(notebook, tmp_path / "mine.ipynb")

    done = autograder("check", tmp_path / "mine.ipynb")
    assert code == done.returncode, done.stdout
    word = "correct" if kind == "answer" else "not attempted"
    assert len(lesson.exercises) == sum(line.endswith(word) for line in done.stdout.splitlines())
    assert "Traceback" not in done.stdout + done.stderr


def test_each_cell_is_announced_and_nothing_else_is_said(tmp_path, capfd):
    """The callback gets each cell's number before it runs; the kernel's own warnings do not reach the terminal."""
    cells = [
        nbformat.v4.new_code_cell("1 + 1"),
        plain_course.known(nbformat.v4.new_code_cell("assert True"), "mine", points=1),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "mine.ipynb")
    announced = []

    results = attempt(tmp_path / "mine.ipynb", lambda *numbers: announced.append(numbers))

    assert [(1, 2), (2, 2)] == announced
    assert [("mine", "correct")] == [(result.exercise, result.status) for result in results]
    assert ("", "") == capfd.readouterr()


@pytest.mark.parametrize(
    ("statuses", "code"),
    [(["correct", "correct"], 0), (["correct", "not attempted"], 1), (["incorrect", "correct"], 1)],
)
def test_the_command_succeeds_only_if_each_exercise_is_correct(monkeypatch, tmp_path, capsys, statuses, code):
    """A script can tell from the exit code of `check` whether a notebook is finished; only a wrong answer has its message."""
    results = [ExerciseResult("drain", one, float(one == "correct"), 1.0, "why\nhow") for one in statuses]
    monkeypatch.setattr("autograder.course.attempt.attempt", lambda *_: results)
    (tmp_path / "lesson.ipynb").write_text(nbformat.writes(nbformat.v4.new_notebook()))
    assert code == main(["check", str(tmp_path / "lesson.ipynb")])
    points = [int(status == "correct") for status in statuses]
    printed = [f"{got}/1  drain: {status}" for got, status in zip(points, statuses, strict=True)]
    if "incorrect" in statuses:
        printed[1:1] = ["       why", "       how"]
    told = [*printed, f"{sum(points)} of 2 points, for the notebook as it was saved"]
    assert told == capsys.readouterr().out.splitlines()
