"""Hints, progress and their messages, also in notebooks that count for a grade, and JupyterLab's *Validate*."""

import html
import json
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import nbformat
import pytest

from autograder.check import events, passed
from autograder.check.message import NotAttempted
from autograder.course import catalogue
from autograder.course.author_cells import exercises_of, setup_of
from autograder.course.canonical import read
from autograder.course.catalogue import lessons
from autograder.course.learner import after_success, hints, learner_progress
from autograder.course.learner.hints import SEEDS, another_variant, notebook_of
from autograder.course.paths import NOTEBOOKS, ROOT, SOLUTIONS
from autograder.course.short_validation import ShortValidationHandler, short_entries
from autograder.course.stored_notebook import METADATA, is_for_credit, mark_for_credit
from autograder.course.variants.declared_changes import chosen_names, read_changes
from autograder.course.variants.handout import mark_variant
from autograder.course.variants.variant import OwnVariant, vary
from autograder.course.variants.variant_proof import CellNamespace as Namespace
from tests.grade import plain_course


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A progress file of the test's own."""
    own = learner_progress.Store(tmp_path / "home" / "progress.json")
    monkeypatch.setattr(learner_progress, "store", own)
    monkeypatch.setattr(hints, "store", own)
    monkeypatch.setattr(after_success, "store", own)
    monkeypatch.setattr(hints, "_hints_used", Counter())
    monkeypatch.setattr(hints, "wrong_answers", Counter())
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    return own


def test_hints_climb_three_rungs_and_start_again(capsys):
    """Each call shows the next hint; the fourth shows the first again."""
    hints._hints_used.clear()
    told_hints = next(e.hints for lesson in catalogue.lessons() for e in lesson.exercises if e.id == "shifted_exp")
    for _ in range(4):
        hints.hint("shifted_exp")
    told = capsys.readouterr().out.splitlines()
    assert [*told_hints, told_hints[0]] == [line.partition(": ")[2] for line in told]


@pytest.mark.parametrize("ask", [hints.hint, hints.reset, hints.model_answer])
def test_an_unknown_exercise_is_told_with_those_there_are(ask, capsys):
    """For a misspelled name, the intended name is suggested; without a similar one, all names are listed by lesson."""
    ask("shifted_expp")
    assert "There is no exercise 'shifted_expp'. Did you mean 'shifted_exp'?\n" == capsys.readouterr().out
    ask()
    told = capsys.readouterr().out.splitlines()
    assert "Which exercise? Write one of these names, in quotes:" == told[0]
    assert len(catalogue.lessons()) == len(told[1:])
    assert "  lesson 0: drain, fresh_state, read_counters, three_states, product_then_zero" == told[1]


def test_a_prediction_is_no_exercise(capsys):
    """The message for a hint to a prediction is that there is no hint, not that the prediction does not exist."""
    hints.hint("prediction_late_write")
    assert capsys.readouterr().out.startswith("Predictions and named lines have no hints")


def test_the_map_numbers_the_lessons_as_they_call_each_other(store):
    """Each row begins with the lesson's number, and its title leads to its notebook."""
    shown = learner_progress.CourseMap({"drain"})
    assert "0  Names, objects, storage" in repr(shown).splitlines()[0]
    assert "■□□□□ 1 of 5" in repr(shown).splitlines()[0]
    assert 'href="../06_clinic/06_clinic.ipynb">Clinic</a>' in shown._repr_html_()


def test_the_model_answer_waits_for_a_pass(store, capsys):
    """The answer is not available before the exercise has passed; then it is shown with its reason."""
    hints.model_answer("shifted_exp")
    assert "once your own answer has passed" in capsys.readouterr().out
    store.add("shifted_exp")
    hints.model_answer("shifted_exp")
    assert "the sum goes into new memory" in capsys.readouterr().out


def test_nobody_has_to_stay_stuck(store, capsys, monkeypatch):
    """After three hints and three wrong answers the model answer opens, and the exercise is marked as seen."""
    monkeypatch.setattr(hints, "_hints_used", Counter({"shifted_exp": 3}))
    monkeypatch.setattr(hints, "wrong_answers", Counter({"shifted_exp": 2}))
    hints.model_answer("shifted_exp")
    assert "(3 and 2 so far)" in capsys.readouterr().out
    hints.wrong_answers["shifted_exp"] += 1
    hints.model_answer("shifted_exp")
    assert "the sum goes into new memory" in capsys.readouterr().out
    assert ({"shifted_exp"}, set()) == (store.seen(), store.passed())
    after_success.can_now("02")
    assert "To practise again, because you saw the model answer first: shifted_exp" in capsys.readouterr().out


def test_who_saw_the_answer_can_pass_a_twin(store, capsys, monkeypatch):
    """A new cell contains a variant of the program and its check; the first answer does not solve the variant."""
    cells = []
    monkeypatch.setattr(hints, "get_ipython", lambda: SimpleNamespace(set_next_input=cells.append))
    monkeypatch.setattr(hints, "_hints_used", Counter({"open_gate": 3}))
    monkeypatch.setattr(hints, "wrong_answers", Counter({"open_gate": 3}))
    hints.model_answer("open_gate")
    assert "A variant to pass instead" in capsys.readouterr().out
    (twin,) = cells
    source = lesson_notebook(SOLUTIONS)
    first = next(one for one in exercises_of(read(source)) if one.id == "open_gate")
    assert first.stub not in twin
    assert 'check("open_gate"' in twin
    learner = Namespace()
    learner.run(setup_of(read(source)))
    with pytest.raises(NotAttempted):
        learner.run(twin)


@pytest.mark.parametrize("lesson", catalogue.lessons(), ids=lambda lesson: lesson.name)
def test_nearly_every_exercise_has_a_twin_whose_own_answer_passes(lesson):
    """The twin is one of the class's variants; its check passes with the variant's model answer."""
    source = read(SOLUTIONS / lesson.name / f"{lesson.name}.ipynb")
    changes = read_changes(SOLUTIONS, lesson.name)
    exercises = [one.id for one in lesson.exercises]
    twins = {one: another_variant(one, source, changes) for one in exercises}
    assert len(exercises) - 2 <= sum(twin is not None for twin in twins.values())
    known = {(one.id, one.stub): one for seed in SEEDS for one in exercises_of(vary(source, seed, changes))}
    one = exercises[0]
    variant = next(
        found for (name, stub), found in known.items() if name == one and twins[one].startswith(f"{stub}\n\n\n")
    )
    learner = Namespace()
    learner.run(setup_of(source))
    learner.run(twins[one].replace(variant.stub, variant.of_kind("answer")[0].source))


@pytest.fixture
def handed_out(tmp_path, monkeypatch):
    """The folder of a student whose lesson 02 is a variant, and the variant of the source."""
    changes = read_changes(SOLUTIONS, "02_mutating_a_saved_tensor")
    seed = next(one for one in range(50) if "v" == chosen_names(changes, one)["d"])
    path = lesson_notebook(NOTEBOOKS)
    varied = vary(read(path), seed, changes)
    mark_variant(varied, seed, changes)
    nbformat.write(varied, tmp_path / path.name)
    monkeypatch.chdir(tmp_path)
    return {one.id: one for one in exercises_of(vary(read(lesson_notebook(SOLUTIONS)), seed, changes))}


def lesson_notebook(folder):
    """Return the notebook of lesson 02 below a folder."""
    return folder / "02_mutating_a_saved_tensor" / "02_mutating_a_saved_tensor.ipynb"


def test_a_variant_speaks_of_itself(handed_out, store, capsys, monkeypatch):
    """In a student's own variant, reset, hint and the model answer have its names; elsewhere those of the lesson."""
    cells = []
    monkeypatch.setattr(hints, "get_ipython", lambda: SimpleNamespace(set_next_input=cells.append))
    hints.reset("clear_after_use")
    assert [handed_out["clear_after_use"].stub] == cells
    assert "def clear_after_use(v, " in cells[0]
    store.add("clear_after_use")
    capsys.readouterr()
    hints.model_answer("clear_after_use")
    assert (
        handed_out["clear_after_use"].of_kind("answer")[0].source.removeprefix("# answer: ") + "\n"
        == capsys.readouterr().out
    )
    monkeypatch.chdir(SOLUTIONS)
    hints.reset("clear_after_use")
    assert "def clear_after_use(d, w2)" in cells[1]


def test_a_hint_has_the_names_of_the_variant_and_no_other_words_change():
    """A name is replaced as a whole word, not inside a word and not after an apostrophe."""
    own = OwnVariant(1, {}, {"d": "v", "s": "g", "own": "mine"})
    assert "v and g: the caller's own d_ is read" == own.in_words("d and s: the caller's own d_ is read")


def test_can_now_is_true_only_of_what_passed(store, capsys):
    """A line is marked once every exercise that shows it has passed, and not before."""
    after_success.can_now("02")
    assert "[x]" not in capsys.readouterr().out
    store.add("shifted_exp")
    store.add("open_gate")
    store.add("product_by_hand")
    after_success.can_now("02")
    *aims, onward = capsys.readouterr().out.splitlines()
    assert ["[x]", "[ ]", "[ ]"] == [line[:3] for line in aims]
    assert onward.startswith("Next: 3, .data against .detach().")
    card = after_success.LessonEnd(catalogue.lessons()[2], store)._repr_html_()
    assert 'href="../03_data_against_detach/03_data_against_detach.ipynb"' in card
    assert 'href="../start/start.ipynb"' in card
    assert (1, 2) == (card.count("☑"), card.count("☐"))


def test_the_card_names_what_to_practise_again(store):
    """An answer seen before it passed, and a belief behind several wrong predictions of this lesson, but not one of another lesson."""
    lesson = catalogue.lessons()[2]
    belief = lesson.predictions["prediction_late_write"]["correct"]
    elsewhere = next(
        name for name in catalogue.beliefs() if not any(name in of.values() for of in lesson.predictions.values())
    )
    store.mark_seen("shifted_exp")
    for name in (belief, elsewhere, belief, elsewhere):
        store.add_misconception(name)
    for told in (repr(after_success.LessonEnd(lesson, store)), after_success.LessonEnd(lesson, store)._repr_html_()):
        assert "shifted_exp" in told.partition("To practise again")[2]
        text = html.unescape(told).replace("<code>", "`").replace("</code>", "`")
        assert catalogue.beliefs()[belief] in text
        assert catalogue.beliefs()[elsewhere] not in text


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
    monkeypatch.setitem(events._listeners, "passed", [heard.append])
    passed("shifted_exp")
    assert ["shifted_exp"] == heard
    assert "shifted_exp: correct\n" == capsys.readouterr().out


@pytest.mark.parametrize(("imports", "listeners"), [
    ("import autograder.course", 0),
    ("from autograder.course import hint", 4),
    ("from autograder.course import can_now, hint, reset", 4),
])  # fmt: skip
def test_a_lesson_that_imports_a_name_keeps_progress(imports, listeners):
    """Importing the package registers nothing; a first cell registers progress, first answers, reasons and explanations, each once."""
    program = f"{imports}; from autograder.check import events; print(len(events._listeners['passed']))"
    assert f"{listeners}\n" == subprocess.check_output([sys.executable, "-c", program], text=True, cwd=ROOT)


def test_grading_leaves_no_trace(store, monkeypatch):
    """Under nbgrader nothing is written, because the file would be the teacher's."""
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
    """If the folder cannot be created, the pass still counts for the student, and one sentence reports the problem."""
    store.file.parent.write_text("a file in the folder's place")
    store.add("shifted_exp")
    store.add("open_gate")
    assert 1 == capsys.readouterr().out.count("cannot be saved")


@pytest.fixture
def credited(tmp_path, monkeypatch):
    """The current folder, with lesson 02 in it as it is handed out for credit."""
    notebook = read(notebook_of(NOTEBOOKS, lessons()[2]))
    mark_for_credit(notebook)
    nbformat.write(notebook, tmp_path / "02.ipynb")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hints, "_hints_used", Counter())
    return tmp_path


def test_two_hints_and_no_model_answer(credited, capsys, monkeypatch):
    """The third call shows the first hint again, and the model answer stays closed after a pass and after hints and errors."""
    told = next(one.hints for one in lessons()[2].exercises if one.id == "shifted_exp")
    for _ in range(3):
        hints.hint("shifted_exp")
    shown = capsys.readouterr().out.splitlines()
    assert [told[0], told[1], told[0]] == [line.partition(": ")[2] for line in shown]
    assert shown[1].startswith("Hint 2 of 2")
    monkeypatch.setattr(hints, "wrong_answers", Counter({"shifted_exp": 9}))
    monkeypatch.setattr(hints.store, "passed", lambda: {"shifted_exp"})
    hints.model_answer("shifted_exp")
    assert "This notebook counts for a grade, so the model answer is not shown" in capsys.readouterr().out


def test_only_the_marked_notebook_is_concerned(credited, capsys):
    """Exercises of other lessons keep three hints, and so does this lesson without the mark; a damaged notebook is skipped."""
    (credited / "00.ipynb").write_text("{")
    assert is_for_credit("shifted_exp")
    assert not is_for_credit("drain")
    notebook = nbformat.read(credited / "02.ipynb", 4)
    del notebook.metadata[METADATA]
    nbformat.write(notebook, credited / "02.ipynb")
    assert not is_for_credit("shifted_exp")


def test_the_end_of_a_lesson_has_no_dead_link(tmp_path, monkeypatch):
    """Next to a glossary alone, as in the files for students, the card names the next lesson without a link."""
    (tmp_path / "start").mkdir()
    (tmp_path / "02").mkdir()
    monkeypatch.chdir(tmp_path / "02")
    card = after_success.LessonEnd(lessons()[2], learner_progress.Store(tmp_path / "progress.json"))
    assert "href" not in card._repr_html_()
    assert "start.ipynb" not in repr(card)
    assert lessons()[3].title in card._repr_html_()
    (tmp_path / "start" / "start.ipynb").write_text("{}")
    assert 2 == card._repr_html_().count("href")


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.name)
def test_a_marked_lesson_says_nothing_of_what_it_leaves_out(lesson):
    """No text mentions the model answer or three hints, one mentions two, and graded cells are unchanged."""
    notebook = read(notebook_of(NOTEBOOKS, lesson))
    graded = [cell.copy() for cell in notebook.cells if "nbgrader" in cell.metadata]
    mark_for_credit(notebook)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert "model_answer" not in text
    assert "three hints" not in text
    assert "there are two hints" in text
    assert all(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert graded == [cell for cell in notebook.cells if "nbgrader" in cell.metadata]


IMPORTS = "import torch\nfrom autograder.check import check, leaf"
ANSWERS = {
    "doubled": ("def doubled(x):\n    return x * 2", "x * 2", "x"),
    "halved": ("def halved(x):\n    y = x.exp()\n    y /= 2\n    return y", "x.exp() / 2", "x"),
    "squared": ("def squared(x):\n    return x", "x * x", "x"),
    "cubed": ("def cubed(x):\n    return x", "x ** 3", "x"),
}


def check_of(name: str, like: str, given: str) -> str:
    """Return a check cell as the lessons have them."""
    return (
        f'"""The value and the gradient are right."""\n\n\ndef meant(x):\n    return {like}\n\n\n'
        f'def given(x):\n    return {given}\n\n\ncheck("{name}", like=meant, given=given, x=leaf("n"))'
    )


@pytest.fixture
def validated(tmp_path):
    """The response of the button's handler for a notebook with a right answer, a wrong one and two missing ones."""
    cells = [nbformat.v4.new_code_cell(IMPORTS)]
    for name, (answer, like, given) in ANSWERS.items():
        check = plain_course.known(nbformat.v4.new_code_cell(check_of(name, like, given)), name, points=1)
        cells += [nbformat.v4.new_code_cell(answer), check]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "mine.ipynb")
    handler = object.__new__(ShortValidationHandler)
    handler.application = SimpleNamespace(settings={"root_dir": str(tmp_path)})
    return handler.validate_notebook("mine.ipynb")


def test_what_failed_is_told_by_its_name(validated):
    """The wrong answer has all four lines of its message, which name its line; those not attempted share one entry."""
    assert validated["success"]
    wrong, waiting = validated["value"]["failed"]
    assert "halved" == wrong["source"]
    lines = wrong["raw_error"].splitlines()
    assert "halved: backward() raises: a saved tensor was modified" == lines[0]
    assert "line 3: y /= 2 writes into the memory of y" in wrong["raw_error"]
    assert len(lines) <= 12
    assert ("2 not attempted yet", "squared, cubed") == (waiting["source"], waiting["raw_error"])


def test_other_cells_are_left_as_nbgrader_tells_them():
    """A check that is not one of ours keeps its source."""
    entry = {"source": "assert 1 == 2", "error": "<b>no</b>", "raw_error": "----- AssertionError"}
    assert [entry] == short_entries([entry])
