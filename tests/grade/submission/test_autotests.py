"""AUTOTEST lines become the tests that nbgrader makes of them; the model answers run in isolation.

Oracle: nbgrader's own preprocessor, which runs them in a kernel.
"""

import copy
from pathlib import Path

import nbformat
import nbgrader
import pytest
from nbgrader.api import Gradebook
from nbgrader.preprocessors import InstantiateTests
from traitlets.config import Config

from autograder.course.canonical import KERNEL
from autograder.grade.batch.assignment import Options, grade_assignment
from autograder.grade.sandbox.isolation import LEVELS
from autograder.grade.submission.server_client import ServerClient
from autograder.grade.submission.teacher.autotests import AutotestRunner
from autograder.grade.submission.teacher.source import SourceError
from tests.grade.conftest import LIMITS
from tests.grade.small_course import answer, graded_cell, teacher

TEMPLATES = Path(nbgrader.__file__).parent / "tests" / "apps" / "files" / "autotests.yml"
LINES = """assert area(1) == 3
### HASHED AUTOTEST area(2); str(area)[:9]
### BEGIN HIDDEN TESTS
### AUTOTEST area(3); [area(1), 'x']; {'a': 1.5}; (1, None); helper.ONE; cube
### END HIDDEN TESTS"""


def source(test=LINES, solution="def area(r):\n    return 3 * r * r\ncube = 2.5"):
    """Return a source notebook with one test."""
    cells = [teacher("import helper"), answer("a", solution), graded_cell("t", test)]
    return nbformat.v4.new_notebook(cells=cells, metadata=KERNEL)


@pytest.fixture
def folder(tmp_path):
    """A source's folder, with nbgrader's own templates and a helper module."""
    (tmp_path / "autotests.yml").write_bytes(TEMPLATES.read_bytes())
    (tmp_path / "helper.py").write_text("ONE = 1")
    return tmp_path


def instantiated(notebook, folder):
    """Return the notebook as this grader makes it."""
    files = {path.name: path.read_bytes() for path in folder.glob("*.py")}
    with AutotestRunner(LEVELS["bubblewrap"], LIMITS, Config(), folder) as runner:
        return runner.instantiate(copy.deepcopy(notebook), folder, files)


def test_lines_become_the_tests_of_nbgrader(bubblewrap, folder):
    """Word for word: templates by type, hashes with their salts, hidden regions, and values from the model answers."""
    expected, _ = InstantiateTests().preprocess(copy.deepcopy(source()), {"metadata": {"path": str(folder)}})
    found = instantiated(source(), folder)
    assert [cell.source for cell in expected.cells] == [cell.source for cell in found.cells]
    assert "sha1" in found.cells[2].source
    assert "### AUTOTEST" not in found.cells[2].source


def test_a_notebook_without_such_lines_starts_nothing(folder, monkeypatch):
    """And stays as it is."""
    notebook = source("assert area(1) == 3")
    monkeypatch.setattr(ServerClient, "worker", lambda *_: pytest.fail("a server starts"))
    assert notebook == instantiated(notebook, folder)


@pytest.mark.parametrize(
    ("solution", "kept", "said"),
    [
        ("area = 1 / 0", True, "cell 'a' ended with ZeroDivisionError"),
        ("def area(r):\n    return r", True, "cell 't' ended with AssertionError"),
        ("def area(r):\n    return 3 * r * r", False, "the AUTOTEST lines need autotests.yml"),
    ],
)
def test_what_cannot_be_made_into_tests_is_one_sentence(bubblewrap, folder, solution, kept, said):
    """An answer that fails, a test of the teacher's own that fails, no templates."""
    if not kept:
        (folder / "autotests.yml").unlink()
    with pytest.raises(SourceError, match=said):
        instantiated(source(solution=solution), folder)


def test_a_class_is_graded_by_them(bubblewrap, tmp_path, monkeypatch):
    """Right and wrong submissions; the gradebook has the values of nbgrader itself, and no kernel is started."""
    monkeypatch.setattr("nbgrader.preprocessors.instantiatetests.start_new_kernel", lambda **_: pytest.fail("a kernel"))
    place = tmp_path / "source" / "w1"
    place.mkdir(parents=True)
    (place / "helper.py").write_text("ONE = 1")
    (tmp_path / "autotests.yml").write_bytes(TEMPLATES.read_bytes())
    nbformat.write(source(), place / "w1.ipynb")
    for student, wrong in (("right", "3 * r * r"), ("wrong", "3 * r")):
        handed_in = source(solution=f"def area(r):\n    return {wrong}\ncube = 2.5")
        (tmp_path / "submitted" / student / "w1").mkdir(parents=True)
        nbformat.write(handed_in, tmp_path / "submitted" / student / "w1" / "w1.ipynb")

    rows = grade_assignment("w1", tmp_path, Options(jobs=1))

    assert {"right": 1, "wrong": 0} == {row.student: row.points for row in rows}
    assert not any(row.problems for row in rows)
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as gradebook:
        [stored] = [cell for cell in gradebook.find_notebook("w1", "w1").source_cells if cell.name == "t"]
    (place / "autotests.yml").write_bytes(TEMPLATES.read_bytes())
    assert instantiated(source(), place).cells[2].source == stored.source
