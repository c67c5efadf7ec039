"""solutions/ -> notebooks/: what is released, what is withheld, and how drift is reported."""

import re
import shutil

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.course import catalogue, release
from autograder.course.author_cells import AuthorError, lesson_minutes, section_minutes
from autograder.course.canonical import canonical, read
from autograder.course.paths import NOTEBOOKS, SOLUTIONS, lessons
from tests.lessons.sources import exercises

SOURCES = [pytest.param(path, id=path.parent.name) for path in lessons(SOLUTIONS)]


@pytest.fixture
def released(tmp_path, monkeypatch):
    """A copy of notebooks/ that a test may break."""
    shutil.copytree(NOTEBOOKS, tmp_path / "notebooks")
    monkeypatch.setattr(release, "NOTEBOOKS", tmp_path / "notebooks")
    return tmp_path / "notebooks"


@pytest.mark.parametrize("path", SOURCES)
def test_sources_are_canonical(path):
    """Sources have no outputs, counters or metadata of an editor, so that a diff shows only real changes."""
    assert canonical(read(path)) == read(path)


def test_the_stored_release_is_what_the_sources_give():
    """notebooks/ was generated from solutions/ as it is now."""
    assert [] == release.drift()


def test_one_changed_word_is_named_with_its_cell(released):
    """A word changed in a generated notebook is drift, and the message names the cell."""
    path = lessons(released)[0]
    notebook = read(path)
    cell = next(cell for cell in notebook.cells if cell.cell_type == "markdown")
    cell.source += " word"
    nbformat.write(notebook, path)

    assert [f"{path.relative_to(released)}: cell {cell.id} differs"] == release.drift()


def test_a_missing_and_a_foreign_lesson_are_drift(released):
    """A lesson that was never released, and one without a source, are both reported."""
    path = lessons(released)[0]
    (released / "99_mine").mkdir()
    path.rename(released / "99_mine" / "99_mine.ipynb")

    told = release.drift()
    assert "99_mine/99_mine.ipynb: in notebooks/ but not in solutions/" in told
    assert f"{path.relative_to(released)}: not released yet" in told


def test_a_variant_has_the_exercises_of_the_release_in_other_numbers(tmp_path):
    """`release --seed 7` writes all lessons; programs of most of them differ from notebooks/, and no grade_id does."""
    folder, differing = release.release_variant(7, tmp_path), 0
    for path in lessons(NOTEBOOKS):
        stored, variant = (read(root / path.relative_to(NOTEBOOKS)).cells for root in (NOTEBOOKS, folder))
        ids = [[cell.metadata.get("nbgrader", {}).get("grade_id") for cell in cells] for cells in (stored, variant)]
        assert ids[0] == ids[1]
        differing += [cell.source for cell in stored] != [cell.source for cell in variant]
    assert differing > len(lessons(NOTEBOOKS)) / 2


@pytest.mark.parametrize("path", SOURCES)
def test_no_answer_is_released(path):
    """No author's cell, and no line that only an author's cell has, can be found in the released notebook."""
    text = (NOTEBOOKS / path.relative_to(SOLUTIONS)).read_text("utf-8")
    for exercise in exercises(path):
        for answer in exercise.answers:
            first_line = answer.source.splitlines()[0]
            assert first_line not in text


def test_a_teachers_own_solution_is_cleared(tmp_path):
    """A solution cell without the tag "stub" is cleared as nbgrader does it, so a new lesson cannot leak by accident."""
    graded = {"grade": False, "solution": True, "locked": False, "task": False, "grade_id": "mine", "schema_version": 3}
    cell = nbformat.v4.new_code_cell("secret = 42", metadata={"nbgrader": graded})
    (tmp_path / "source" / "mine").mkdir(parents=True)
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "source" / "mine" / "mine.ipynb")

    release.build(tmp_path / "release", tmp_path / "source")
    assert "secret" not in (tmp_path / "release" / "mine" / "mine.ipynb").read_text("utf-8")


@pytest.mark.parametrize(
    ("first_line", "tag"),
    [
        ("# wrong: no phrase", "wrong"),
        ("# answer: a -> phrase", "answer"),
        ("def f():", "right"),
        ("# right: ok", "wrong"),
    ],
)
def test_an_authors_cell_in_another_form_is_refused(tmp_path, first_line, tag):
    """A slip in an author's cell is reported with the cell and the right form, so no wrong answer goes untested."""
    graded = {"grade": True, "solution": False, "locked": True, "points": 1, "grade_id": "f", "schema_version": 3}
    cells = [
        nbformat.v4.new_code_cell(f"{first_line}\n    pass", metadata={"tags": [tag]}),
        nbformat.v4.new_code_cell("check", metadata={"nbgrader": graded}),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "a.ipynb")
    with pytest.raises(AuthorError, match="first line must read"):
        exercises(tmp_path / "a.ipynb")


def test_the_minutes_of_a_lesson_follow_the_rule():
    """By hand: 300 words, two predictions, and a fix in an optional section are 2, 5 and 6 minutes."""
    grade = {"nbgrader": {"grade": True, "locked": True, "solution": False}}
    text = new_markdown_cell("## 1 · Two\n\n" + "word " * 296)
    asked = new_code_cell('predicted("one", one)\npredicted_value("two", two)', metadata=grade)
    fix = new_code_cell('check("three", like=given)', metadata=grade)
    lesson = new_notebook(cells=[text, asked, new_markdown_cell("## 2 · Optional"), fix])
    assert {"": 0, "1 · Two": 7, "2 · Optional": pytest.approx(6, abs=0.1)} == section_minutes(lesson)
    assert 5 == lesson_minutes(lesson)


@pytest.mark.parametrize("lesson", catalogue.lessons(), ids=lambda lesson: lesson.name)
def test_each_lesson_states_its_estimated_minutes(lesson):
    """The catalogue and the lesson's first cell have the minutes of the rule."""
    released = read(NOTEBOOKS / lesson.name / f"{lesson.name}.ipynb")
    assert lesson.minutes == lesson_minutes(released)
    assert f"Allow about {lesson.minutes} minutes" in released.cells[0].source


def test_the_core_path_takes_its_minutes():
    """Each of its parts takes the minutes of the rule, rounded to 5, and all of them the 90 minutes that the page states."""
    start = "\n".join(cell.source for cell in read(NOTEBOOKS / "start" / "start.ipynb").cells)
    parts = re.findall(r"^\d\. .*?\.\./(\w+)/.*?, (?:sections?|patients?) (.*?): .* \((\d+) minutes\)", start, re.M)
    stated = []
    for lesson, sections, minutes in parts:
        first, to, last = sections.partition(" to ")
        numbers = [*range(int(first), int(last) + 1)] if to else re.findall(r"\d+", sections)
        found = section_minutes(read(NOTEBOOKS / lesson / f"{lesson}.ipynb"))
        needed = sum(
            time for name, time in found.items() if re.match("|".join(rf"(?:Patient )?{n} ·" for n in numbers), name)
        )
        needed += found.get("How the clinic works, and a patient of your own", 0)
        assert int(minutes) - 5 <= needed <= int(minutes) + 2.5, (lesson, needed)
        stated.append(int(minutes))
    assert 5 == len(stated)
    assert 80 <= sum(stated) <= 90
    assert "The **core path** takes about 90 minutes" in start
