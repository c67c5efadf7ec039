"""After an exercise has passed, the student can read the author's reason and a second solution, but not before."""

import html
import subprocess
import sys

import pytest

from autograder.check import attempt_picture, shown_message
from autograder.check import exercise as check_line
from autograder.check.message import VALIDATING
from autograder.check.subject.learner_code import normal_form
from autograder.course.learner import after_success
from autograder.course.paths import ROOT, SOLUTIONS, lessons
from autograder.course.variants.variant_proof import CellNamespace as Namespace
from autograder.locale.languages import use_language
from autograder.view.notebook import drawn_mimebundle
from autograder.view.text.gradient_values import is_wrong
from tests.lessons.solving import verdict
from tests.lessons.sources import exercises

KNOWN = {exercise.id: (path, exercise) for path in lessons(SOLUTIONS) for exercise in exercises(path)}
WITHOUT_PICTURE = {"read_counters"}  # it returns numbers
REPAIRS = [name for name, (_, exercise) in KNOWN.items() if "\ncheck(" in exercise.check]


@pytest.fixture
def shown(monkeypatch):
    """Return what is displayed after a pass, as in a notebook."""
    found = []
    monkeypatch.setattr(shown_message, "draws_here", lambda: True)
    monkeypatch.setattr(shown_message, "display", lambda bundle, raw: found.append(bundle))
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    monkeypatch.delenv(VALIDATING, raising=False)
    return found


def answered(monkeypatch, exercise, answer):
    """Put an answer where a notebook keeps its names."""
    learner = Namespace()
    learner.run(answer)
    monkeypatch.setattr(after_success, "current_names", lambda: learner)


@pytest.mark.parametrize("name", REPAIRS)
def test_the_second_way_is_right_and_another_program(name):
    """The second solution passes the check and differs from the student's, whichever of the author's answers the student wrote."""
    path, exercise = KNOWN[name]
    for answer in exercise.of_kind("answer", "right"):
        learner = Namespace()
        learner.run(
            "import torch\nimport numpy as np\nimport torch.nn.functional as F\nfrom torch import nn\n" + answer.source
        )
        other = after_success.second_way(exercise, normal_form(learner.names[name]))
        assert other is not None
        assert other.source != answer.source
    assert verdict(path, exercise, other.source) is None


def test_a_pass_shows_the_reason_and_the_second_way(monkeypatch, shown):
    """The words and the code are those of the author's cells; in Chinese the words are Chinese, and the code is the same."""
    answer, right = KNOWN["drain"][1].of_kind("answer")[0], KNOWN["drain"][1].of_kind("right")[0]
    answered(monkeypatch, "drain", answer.source)
    after_success.show_reason("drain")
    with use_language("zh-CN"):
        after_success.show_reason("drain")
    text, told = shown[0]["text/plain"], html.unescape(shown[1]["text/html"])
    assert answer.name in " ".join(text.split())
    assert right.source.partition("\n")[2].strip() in text
    assert answer.name not in told
    assert right.name not in told
    assert right.source.splitlines()[1] in told


@pytest.mark.parametrize("name", REPAIRS)
def test_a_pass_shows_the_answers_own_run(name, monkeypatch):
    """Below the line is the picture of the student's own lines, with right gradients; without autograd, there is no picture."""
    path, exercise = KNOWN[name]
    pictures, lines = [], []
    for module in (shown_message, check_line):
        monkeypatch.setattr(module, "is_learners_notebook", lambda: True)
    monkeypatch.setattr(shown_message, "display", lambda bundle, raw: lines.append(bundle["text/plain"]))
    monkeypatch.setattr(attempt_picture, "draws_here", lambda: True)
    monkeypatch.setattr(attempt_picture, "show", pictures.append)
    answer = exercise.of_kind("answer")[0]

    assert verdict(path, exercise, answer.source) is None

    assert [f"{name}: correct"] == [line.partition(" (")[0] for line in lines]
    for picture in pictures:
        assert "correct" == picture.verdict.outcome
        assert set(picture.programs[0].source.splitlines()) >= set(answer.source.splitlines())
        assert 30_000 >= sum(len(form.encode()) for form in drawn_mimebundle(picture).values())
        assert not [leaf for leaf, gradient in picture.verdict.gradients.items() if is_wrong(gradient)]
    assert name in WITHOUT_PICTURE or [1] == [len(pictures)]


def test_no_card_shows_a_backtick():
    """Text that an author put between backticks is code on a student's card."""
    named = [one for _, known in KNOWN.values() for one in known.of_kind("answer", "right") if "`" in one.name]
    assert named
    for one in named:
        words = after_success.reason_card(one.name, one)[1].partition("<pre>")[0]
        assert "`" not in words
        assert one.name.count("`") == words.count("<code>")  # twice: as the reason, and as the second way


@pytest.mark.parametrize(
    ("module", "loaded"), [("sys", []), ("autograder.course.canonical", ["jsonschema", "nbformat"])]
)
def test_a_reason_loads_neither_nbformat_nor_nbgrader(module, loaded):
    """The first pass in a kernel does not wait for them; the second row shows that the test detects it."""
    program = f"""
import {module}
import sys
from autograder.course.learner import after_success
def drain():
    pass
after_success.is_learners_notebook = lambda: True
after_success.show_reason("drain")
print(sorted({{"jsonschema", "nbformat", "nbgrader"}} & sys.modules.keys()))
"""
    shown = subprocess.check_output([sys.executable, "-c", program], text=True, cwd=ROOT)
    assert "A second way" in shown
    assert str(loaded) == shown.splitlines()[-1]


@pytest.mark.parametrize("exercise", ["prediction_name_reused", "culprit_residual", "no_such_exercise"])
def test_a_prediction_has_no_reason(exercise, shown):
    """The picture is its explanation."""
    after_success.show_reason(exercise)
    assert [] == shown


@pytest.mark.parametrize("exercise", ["silent_without_data", "why_no_grad"])
def test_what_is_asked_again_has_no_second_way(exercise, shown):
    """Making a program silently wrong is also the task of the next lesson, so only the reason is shown."""
    after_success.show_reason(exercise)
    assert [False] == ["A second way" in card["text/plain"] for card in shown]


@pytest.mark.parametrize("variable", ["NBGRADER_EXECUTION", VALIDATING])
def test_no_answer_gets_into_feedback(variable, monkeypatch, shown):
    """While nbgrader executes a notebook, a pass shows only its line."""
    monkeypatch.setenv(variable, "1")
    after_success.show_reason("drain")
    assert [] == shown
