"""Predictions: the text before does not reveal the answer, and for a wrong choice the message explains the common belief."""

import ast
import contextlib
import io
import re
from typing import NamedTuple

import pytest

from autograder.check import prediction
from autograder.check.message import Incorrect
from autograder.check.plan import Plan, planning
from autograder.course import catalogue
from autograder.course.author_cells import PROGRAM, questions_of
from autograder.course.canonical import read
from autograder.course.learner import learner_progress
from autograder.course.paths import NOTEBOOKS, SOLUTIONS, lessons
from autograder.course.variants.variant_proof import CellNamespace as Namespace
from autograder.graded import being_graded
from autograder.tape.recording.verdict_types import OUTCOMES
from tests.lessons.sources import exercises, setup

LESSONS = {path.parent.name: path for path in lessons(SOLUTIONS)}
FOLDED = re.compile(r"<details>.*?</details>", re.DOTALL)
TELLS = re.compile(
    r"\b(raise[sd]?|errors?|correct|wrong|silent(ly)?|harm\w*|runs?|refuse[sd]?|detected|unnoticed)\b|v0|→", re.I
)


class Group(NamedTuple):
    """The predictions of one check cell, and the beliefs behind their wrong choices."""

    name: str
    path: object
    check: str
    names: list[str]
    beliefs: dict[str, dict[str, str]]

    def plans(self) -> list[Plan]:
        """Return the plans of the check cell."""
        author = Namespace()
        author.run(setup(self.path))
        with planning() as plans:
            author.run(self.check)
        return plans

    def compare(self, plans: list[Plan], **choices: str) -> tuple[str, Incorrect | None]:
        """Return the output and errors of the plans; a prediction without a choice is right."""
        learner, printed = Namespace(), io.StringIO()
        for name in self.names:
            learner.names[name] = choices.get(name) or next(iter(set(OUTCOMES) - self.beliefs[name].keys()))
        with contextlib.redirect_stdout(printed):
            try:
                for plan in plans:
                    plan.compare(learner)
            except Incorrect as wrong:
                return printed.getvalue(), wrong
        return printed.getvalue(), None


def groups() -> list[Group]:
    """Return the predictions of all lessons, by check cell."""
    known = {lesson.name: lesson.predictions for lesson in catalogue.lessons()}
    found = []
    for lesson, path in LESSONS.items():
        for exercise in exercises(path):
            names = [question.name for question in questions_of(exercise.check) if question.asks == "predicted"]
            if names:
                of = {name: known[lesson].get(name, {}) for name in names}
                found.append(Group(exercise.id, path, exercise.check, names, of))
    return found


VALUES = [
    (path, exercise)
    for path in LESSONS.values()
    for exercise in exercises(path)
    if "\npredicted_value(" in exercise.check
]
"""The predictions of a number, a word, or several."""

GROUPS = [pytest.param(group, id=group.name) for group in groups()]


@pytest.mark.parametrize("group", GROUPS)
def test_each_wrong_choice_is_met_with_its_belief(group):
    """The right outcome passes without a belief; each of the three wrong ones is refused, and its sentence follows the verdict."""
    plans = group.plans()
    printed, wrong = group.compare(plans)
    assert wrong is None
    assert "You may think" not in printed
    for name, beliefs in group.beliefs.items():
        assert 3 == len(beliefs)
        for choice, belief in beliefs.items():
            printed, wrong = group.compare(plans, **{name: choice})
            assert wrong is not None
            assert f"You predicted {choice}" in " ".join(str(wrong).split())
            verdict, _, reason = printed.rpartition("You may think")
            assert f"You may think{reason}".startswith(catalogue.beliefs()[belief])
            assert name in verdict


@pytest.mark.parametrize(("path", "exercise"), VALUES, ids=lambda one: getattr(one, "id", ""))
def test_a_wrong_value_is_met_with_its_belief(path, exercise, capsys):
    """The value of a known belief is rejected with its sentence; any other wrong value is rejected without one."""
    known = next(lesson for lesson in catalogue.lessons() if lesson.name == path.parent.name).predictions[exercise.id]
    for value, belief in {**known, "-77": None}.items():
        learner = Namespace()
        learner.run(setup(path))
        learner.names[exercise.id] = ast.literal_eval(value)
        with pytest.raises(Incorrect, match="something else happened"):
            learner.run(exercise.check)
        _, found, reason = capsys.readouterr().out.rpartition("You may think")
        assert bool(belief) == bool(found)
        assert belief is None or f"You may think{reason}".startswith(catalogue.beliefs()[belief])


def test_every_belief_is_used_and_every_prediction_exists():
    """Every sentence can be shown, and every prediction that a lesson names exists."""
    named = {name: beliefs for lesson in catalogue.lessons() for name, beliefs in lesson.predictions.items()}
    values = {exercise.id for _, exercise in VALUES}
    assert {name for group in groups() for name in group.names} | values == named.keys()
    assert {belief for beliefs in named.values() for belief in beliefs.values()} == catalogue.beliefs().keys()


def in_view_after_a_prediction(cells) -> list[str]:
    """Return the unfolded text between each prediction's cell and the next heading or prediction that shows an outcome."""
    told, watching = [], False
    for cell in cells:
        text = FOLDED.sub("", cell.source)
        if cell.cell_type == "code":
            watching = (watching and PROGRAM not in cell.metadata.get("tags", [])) or text.startswith("predicted")
        elif watching:
            above_heading = re.split(r"^#+ ", text, maxsplit=1, flags=re.MULTILINE)
            told += TELLS.findall(above_heading[0]) and [text]
            watching = len(above_heading) == 1
    return told


@pytest.mark.parametrize("lesson", LESSONS)
def test_no_text_in_view_gives_a_prediction_away(lesson):
    """What happened, and why, is not in the released lesson; the check prints it after an answer was given."""
    assert [] == in_view_after_a_prediction(read(NOTEBOOKS / LESSONS[lesson].relative_to(SOLUTIONS)).cells)


@pytest.mark.parametrize("lesson", sorted(LESSONS.keys() - {"start"}))
def test_the_source_of_a_check_is_folded(lesson):
    """A check repeats the program that is handed out, so it is folded; that of a question contains only calls, and is not."""
    grading = [
        cell
        for cell in read(NOTEBOOKS / lesson / f"{lesson}.ipynb").cells
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("grade")
    ]
    folded = {cell.id: bool(cell.metadata.get("jupyter", {}).get("source_hidden")) for cell in grading}
    assert {
        cell.id: not re.search(r"^(predicted|predicted_value|culprit)\(", cell.source, re.MULTILINE) for cell in grading
    } == folded


def test_text_that_gives_a_prediction_away_is_found():
    """An unfolded explanation is found; below a heading, or folded, it is not."""
    cells = [
        {"cell_type": "code", "source": 'predicted("a", a)', "metadata": {}},
        {"cell_type": "markdown", "source": "PyTorch is right to raise.", "metadata": {}},
        {"cell_type": "markdown", "source": "## 2 · The error\n\nIt raises.", "metadata": {}},
    ]
    import nbformat

    opened = [nbformat.from_dict(cell) for cell in cells]
    folded = [nbformat.from_dict(cell | {"source": f"<details>{cell['source']}</details>"}) for cell in cells[1:2]]
    assert ["PyTorch is right to raise."] == in_view_after_a_prediction(opened)
    assert [] == in_view_after_a_prediction([opened[0], *folded, opened[2]])


PAIR = """def view_written():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    d = w * 2
    loss = (d * d).sum()
    d[:1].zero_()
    loss.backward()
    return {"w": w.grad}


predicted("prediction_view_written", view_written)
passed("both")
"""


@pytest.fixture
def student(monkeypatch, tmp_path):
    """Return the namespace of a student in a notebook, with an empty progress file."""
    monkeypatch.setattr(prediction, "is_learners_notebook", lambda: True)
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)  # as in a student's kernel
    monkeypatch.setattr(learner_progress.store, "file", tmp_path / "progress.json")
    learner_progress.keep_progress()  # an earlier test may have begun it with a store of its own
    learner = Namespace()
    learner.run("import torch\n\nfrom autograder.check import passed, predicted\nfrom autograder.course import hint")
    return learner


def test_a_wrong_prediction_is_shown_and_not_raised(student, capsys):
    """In a notebook it does not pass, also if the cell ends in `passed`; the next right one does. Its first word is kept."""
    student.names["prediction_view_written"] = "correct"
    student.run(PAIR)
    assert "You predicted correct. It was raises-backward." in " ".join(capsys.readouterr().out.split())
    assert {"prediction_view_written"} == learner_progress.store.first_wrong()
    assert set() == learner_progress.store.passed()
    student.names["prediction_view_written"] = "raises-backward"
    student.run(PAIR)
    assert {"both", "prediction_view_written"} == learner_progress.store.passed()
    assert {"prediction_view_written"} == learner_progress.store.first_wrong()


def test_grading_raises_a_wrong_prediction(student, monkeypatch):
    """nbgrader gives full points to a cell that does not raise."""
    monkeypatch.undo()
    student.names["prediction_view_written"] = "correct"
    with being_graded(), pytest.raises(Incorrect):
        student.run(PAIR)


@pytest.mark.parametrize("guess", ["correct", "raises-backward"])
def test_the_explanation_of_two_predictions_waits_for_both(student, guess, capsys):
    """It is printed after a right or a wrong answer, once the other program has an answer too."""
    told = "The first one increments the counter"
    student.names |= {"prediction_view_written": guess, "prediction_data_written": "..."}
    student.run(PAIR)
    assert told not in capsys.readouterr().out
    student.names["prediction_data_written"] = "correct"
    student.run(PAIR)
    assert told in capsys.readouterr().out
