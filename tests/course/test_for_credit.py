"""Notebooks that count for a grade: two hints, no model answer, and no sentence that says otherwise."""

from collections import Counter

import nbformat
import pytest

from autograder.course.canonical import read
from autograder.course.catalogue import lessons
from autograder.course.learner import after_success, hints, learner_progress
from autograder.course.learner.hints import notebook_of
from autograder.course.paths import NOTEBOOKS
from autograder.course.stored_notebook import METADATA, is_for_credit, mark_for_credit


@pytest.fixture
def credited(tmp_path, monkeypatch):
    """The current folder, with lesson 02 in it as it is handed out for credit."""
    notebook = read(notebook_of(NOTEBOOKS, lessons()[2]))
    mark_for_credit(notebook)
    nbformat.write(notebook, tmp_path / "02.ipynb")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hints, "_shown", Counter())
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
