"""`autograder new` makes a course on which nbgrader's commands and ours agree."""

import os
import sqlite3
import subprocess
import sys

import nbformat
import pytest

from autograder import cli
from autograder.classroom.demo_class import make_demo_class
from autograder.course.author_cells import AUTHOR_TAGS
from autograder.course.new_course import ASSIGNMENT, NewCourseError, make_course
from autograder.course.release import release_assignment
from autograder.grade.batch.assignment import Options, grade_assignment
from autograder.grade.batch.course_config import read_config
from autograder.grade.sandbox.isolation import LEVELS

SCORES = {"ann": 3.0, "ben": 0.0, "cleo": 0.0}


def nbgrader(course, *words):
    """Run a plain nbgrader command in a course."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    home = {"HOME": str(course), "JUPYTER_CONFIG_DIR": str(course), "PATH": path, "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *words], cwd=course, env=os.environ | home, capture_output=True, text=True
    )
    assert 0 == done.returncode, done.stderr[-2000:]


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
        with pytest.raises(NewCourseError):
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
