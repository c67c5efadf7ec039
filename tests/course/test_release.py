"""solutions/ -> notebooks/: what is released and withheld, and drift; `autograder new` makes a course that nbgrader accepts."""

import re
import shutil
import sqlite3

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder import cli
from autograder.classroom.demo_class import make_demo_class
from autograder.course import catalogue, release
from autograder.course.author_cells import AUTHOR_TAGS, AuthorError, lesson_minutes, section_minutes
from autograder.course.canonical import canonical, read
from autograder.course.new_course import ASSIGNMENT, make_course
from autograder.course.paths import NOTEBOOKS, SOLUTIONS, lessons
from autograder.course.release import release_assignment
from autograder.errors import InputError
from autograder.grade.batch.assignment import Options, grade_assignment
from autograder.grade.batch.course_folders import read_config
from autograder.grade.sandbox.isolation import LEVELS
from tests.commands import nbgrader
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
    assert [] == release.release_differences()


def test_one_changed_word_is_named_with_its_cell(released):
    """A word changed in a generated notebook is drift, and the message names the cell."""
    path = lessons(released)[0]
    notebook = read(path)
    cell = next(cell for cell in notebook.cells if cell.cell_type == "markdown")
    cell.source += " word"
    nbformat.write(notebook, path)

    assert [f"{path.relative_to(released)}: cell {cell.id} differs"] == release.release_differences()


def test_a_missing_and_a_foreign_lesson_are_drift(released):
    """A lesson that was never released, and one without a source, are both reported."""
    path = lessons(released)[0]
    (released / "99_mine").mkdir()
    path.rename(released / "99_mine" / "99_mine.ipynb")

    told = release.release_differences()
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


@pytest.mark.parametrize(("first_line", "tag"), [
    ("# wrong: no phrase", "wrong"),
    ("# answer: a -> phrase", "answer"),
    ("def f():", "right"),
    ("# right: ok", "wrong"),
    ("", "wrong"),
])  # fmt: skip
def test_an_authors_cell_in_another_form_is_refused(tmp_path, first_line, tag):
    """A slip in an author's cell is reported with the cell and the right form, so no wrong answer goes untested."""
    graded = {"grade": True, "solution": False, "locked": True, "points": 1, "grade_id": "f", "schema_version": 3}
    cells = [
        nbformat.v4.new_code_cell(f"{first_line}\n    pass" if first_line else "", metadata={"tags": [tag]}),
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


SCORES = {"ann": 3.0, "ben": 0.0, "cleo": 0.0}


@pytest.mark.parametrize("name", ["course", "my course", "-odd", "new\nline", "100%"])
def test_the_files_are_those_of_a_course(tmp_path, name):
    """Whatever the name of the folder, its configuration can be read and its notebooks are valid."""
    make_course(tmp_path / name)
    compile((tmp_path / name / "nbgrader_config.py").read_text(), "nbgrader_config.py", "exec")
    notebooks = list((tmp_path / name).rglob("*.ipynb"))
    assert 4 == len(notebooks)
    for path in notebooks:
        nbformat.validate(nbformat.read(path, 4))


def test_hand_ins_hold_no_solution_and_no_hidden_test(tmp_path):
    """They are the notebooks that nbgrader releases, with the students' answers."""
    make_course(tmp_path)
    texts = [path.read_text() for path in (tmp_path / "submitted").rglob("*.ipynb")]
    assert [] == [text for text in texts if "HIDDEN" in text or "SOLUTION" in text]


def test_what_is_there_already_is_left_alone(tmp_path, capsys):
    """A folder with something in it, a file, and a place that cannot be written: one sentence, exit code 2."""
    (tmp_path / "mine.txt").write_text("mine")
    assert 2 == cli.main(["new", str(tmp_path)])
    assert "not an empty folder" in capsys.readouterr().err
    assert ["mine.txt"] == [path.name for path in tmp_path.iterdir()]
    for folder in (tmp_path / "mine.txt", tmp_path / "mine.txt" / "below"):
        with pytest.raises(InputError):
            make_course(folder)


@pytest.mark.parametrize("make", [make_course, make_demo_class])
def test_generate_assignment_removes_the_authors_cells(make, tmp_path):
    """In a course that a command made, nbgrader's own command releases no cell tagged answer, right or wrong, and keeps stubs."""
    make(tmp_path)
    [source] = (tmp_path / "source").glob("*/*.ipynb")
    notebook = nbformat.read(source, 4)
    cells = [nbformat.v4.new_code_cell(f"{tag} = 1", metadata={"tags": [tag]}) for tag in AUTHOR_TAGS]
    notebook.cells += cells
    nbformat.write(notebook, source)
    config = read_config(tmp_path)
    config.CourseDirectory.root = str(tmp_path)
    release_assignment(source.stem, config, tmp_path / "source", tmp_path / "release")
    released = nbformat.read(tmp_path / "release" / source.stem / source.name, 4)
    stubs = [cell.source for cell in notebook.cells if "stub" in cell.metadata.get("tags", [])]
    assert [] == [cell.source for cell in released.cells if set(AUTHOR_TAGS) & set(cell.metadata.get("tags", []))]
    assert stubs == [cell.source for cell in released.cells if "stub" in cell.metadata.get("tags", [])]


@pytest.mark.parametrize("verb", ["grade", "validate-source"])
@pytest.mark.parametrize("tag", AUTHOR_TAGS)
def test_a_release_with_an_authors_cell_stops_both_commands(verb, tag, tmp_path, capsys):
    """One sentence names the notebook and the two missing lines, nothing is graded, and the exit code is 2."""
    make_course(tmp_path)
    released = tmp_path / "release" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    released.parent.mkdir(parents=True)
    cell = nbformat.v4.new_code_cell("x = 1", metadata={"tags": [tag]})
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), released)
    assert 2 == cli.main([verb, ASSIGNMENT, "--course", str(tmp_path), "--isolation", "process"])
    error = capsys.readouterr().err
    assert f"{released} has 1 of the author's cells" in error
    assert "configure(c)" in error
    assert not (tmp_path / "gradebook.db").exists()


@pytest.mark.slow
def test_nbgrader_and_we_grade_it_alike(tmp_path):
    """nbgrader releases and grades the course with the same scores; the released notebook scores 0."""
    if LEVELS["bubblewrap"].obstacle:
        pytest.skip(LEVELS["bubblewrap"].obstacle)
    for name in ("ours", "stock"):
        make_course(tmp_path / name)
    rows = grade_assignment(ASSIGNMENT, tmp_path / "ours", Options(feedback="name"))
    nbgrader(tmp_path / "stock", "generate_assignment", ASSIGNMENT)
    nbgrader(tmp_path / "stock", "autograde", ASSIGNMENT)
    query = "SELECT s.student_id, SUM(g.auto_score) FROM grade g JOIN submitted_notebook n ON g.notebook_id = n.id "
    query += "JOIN submitted_assignment s ON n.assignment_id = s.id GROUP BY 1"
    with sqlite3.connect(tmp_path / "stock" / "gradebook.db") as database:
        assert SCORES == dict(database.execute(query)) == {row.student: row.score for row in rows}
    assert SCORES.keys() == {path.name for path in (tmp_path / "ours" / "feedback").iterdir()}
    nbgrader(tmp_path / "ours", "generate_assignment", ASSIGNMENT)
    nbgrader(tmp_path / "ours", "export")
    assert 3 == (tmp_path / "ours" / "grades.csv").read_text().count(f"{ASSIGNMENT},")
