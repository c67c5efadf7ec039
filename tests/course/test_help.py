"""Hints, progress and the messages about them."""

import json
import subprocess
import sys
from collections import Counter

import pytest

from autograder.check.events import passed
from autograder.course import catalogue, hints, learner_progress
from autograder.course.paths import ROOT


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A progress file of the test's own."""
    own = learner_progress.Store(tmp_path / "home" / "progress.json")
    monkeypatch.setattr(learner_progress, "store", own)
    monkeypatch.setattr(hints, "store", own)
    monkeypatch.setattr(hints, "_shown", Counter())
    monkeypatch.setattr(hints, "wrong_answers", Counter())
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    return own


def test_hints_climb_three_rungs_and_start_again(capsys):
    """Each call shows the next hint; the fourth shows the first again."""
    hints._shown.clear()
    told_hints = next(e.hints for lesson in catalogue.lessons() for e in lesson.exercises if e.id == "shifted_exp")
    for _ in range(4):
        hints.hint("shifted_exp")
    told = capsys.readouterr().out.splitlines()
    assert [*told_hints, told_hints[0]] == [line.partition(": ")[2] for line in told]


@pytest.mark.parametrize("ask", [hints.hint, hints.reset, hints.model_answer])
def test_an_unknown_exercise_is_told_with_those_there_are(ask, capsys):
    """A slip in the name is met with the name that was meant; without a near one, all names stand under their lessons."""
    ask("shifted_expp")
    assert "There is no exercise 'shifted_expp'. Did you mean 'shifted_exp'?\n" == capsys.readouterr().out
    ask()
    told = capsys.readouterr().out.splitlines()
    assert "Which exercise? Write one of these names, in quotes:" == told[0]
    assert len(catalogue.lessons()) == len(told[1:])
    assert "  lesson 0: drain, fresh_state, read_counters, three_states" == told[1]


def test_a_prediction_is_no_exercise(capsys):
    """Asking for a hint for a prediction says that there is none, not that the prediction does not exist."""
    hints.hint("prediction_late_write")
    assert capsys.readouterr().out.startswith("Predictions and named lines have no hints")


def test_the_map_numbers_the_lessons_as_they_call_each_other(store):
    """Each row begins with the lesson's number, and its title leads to its notebook."""
    shown = learner_progress.CourseMap({"drain"})
    assert "0  Names, objects, storage" in repr(shown).splitlines()[0]
    assert "■□□□ 1 of 4" in repr(shown).splitlines()[0]
    assert 'href="../06_clinic/06_clinic.ipynb">Clinic</a>' in shown._repr_html_()


def test_the_model_answer_waits_for_a_pass(store, capsys):
    """Before the exercise passed there is no answer to see; afterwards there is, with its reason."""
    hints.model_answer("shifted_exp")
    assert "once your own answer has passed" in capsys.readouterr().out
    store.add("shifted_exp")
    hints.model_answer("shifted_exp")
    assert "the sum goes into new memory" in capsys.readouterr().out


def test_nobody_has_to_stay_stuck(store, capsys, monkeypatch):
    """After three hints and three wrong answers the model answer opens, and the exercise is marked as seen."""
    monkeypatch.setattr(hints, "_shown", Counter({"shifted_exp": 3}))
    monkeypatch.setattr(hints, "wrong_answers", Counter({"shifted_exp": 2}))
    hints.model_answer("shifted_exp")
    assert "(3 and 2 so far)" in capsys.readouterr().out
    hints.wrong_answers["shifted_exp"] += 1
    hints.model_answer("shifted_exp")
    assert "the sum goes into new memory" in capsys.readouterr().out
    assert ({"shifted_exp"}, set()) == (store.seen(), store.passed())
    learner_progress.can_now("02")
    assert "To practise again, because you saw the model answer first: shifted_exp" in capsys.readouterr().out


def test_can_now_is_true_only_of_what_passed(store, capsys):
    """A line is marked once every exercise that shows it has passed, and not before."""
    learner_progress.can_now("02")
    assert "[x]" not in capsys.readouterr().out
    store.add("shifted_exp")
    store.add("open_gate")
    learner_progress.can_now("02")
    *aims, onward = capsys.readouterr().out.splitlines()
    assert ["[x]", "[ ]", "[ ]"] == [line[:3] for line in aims]
    assert onward.startswith("Next: 3, .data against .detach().")
    assert (
        'href="../03_data_against_detach/03_data_against_detach.ipynb"'
        in learner_progress.WayOnward(catalogue.lessons()[2])._repr_html_()
    )


def test_a_pass_is_counted_once_and_can_be_reset(store):
    """Passing twice counts once; a reset forgets all."""
    for _ in range(2):
        store.add("shifted_exp")
    assert {"passed": ["shifted_exp"]} == json.loads(store.file.read_text())
    store.clear()
    assert set() == store.passed()


def test_a_check_that_passes_reaches_the_store(monkeypatch, capsys):
    """The course listens to the checks."""
    heard = []
    monkeypatch.setattr("autograder.check.events._listeners", [heard.append])
    passed("shifted_exp")
    assert ["shifted_exp"] == heard
    assert "shifted_exp: correct\n" == capsys.readouterr().out


@pytest.mark.parametrize(
    ("imports", "listeners"),
    [
        ("import autograder.course", 0),
        ("from autograder.course import hint", 1),
        ("from autograder.course import can_now, hint, reset", 1),
    ],
)
def test_a_lesson_that_imports_a_name_keeps_progress(imports, listeners):
    """Importing the package registers nothing; a lesson's first cell registers the progress file, once."""
    program = f"{imports}; from autograder.check import events; print(len(events._listeners))"
    assert f"{listeners}\n" == subprocess.check_output([sys.executable, "-c", program], text=True, cwd=ROOT)


def test_grading_leaves_no_trace(store, monkeypatch):
    """Under nbgrader nothing is written: the file would be the teacher's."""
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    store.add("shifted_exp")
    assert not store.file.exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"passed": 3}'])
def test_a_broken_progress_file_is_said_once(store, content, capsys):
    """A damaged file counts as empty, is reported in one sentence, and the lesson still works."""
    store.file.parent.mkdir(parents=True)
    store.file.write_text(content)
    assert set() == store.passed() == store.passed()
    assert 1 == capsys.readouterr().out.count("cannot be read")
    store.add("shifted_exp")
    assert {"shifted_exp"} == store.passed()


def test_a_place_that_cannot_be_written_is_said_once(store, capsys):
    """Where the folder cannot be made, the pass still counts for the learner, and one sentence tells."""
    store.file.parent.write_text("a file in the folder's place")
    store.add("shifted_exp")
    store.add("open_gate")
    assert 1 == capsys.readouterr().out.count("cannot be saved")
