"""Each lesson ends with a question for a person, in both languages; an empty answer does not have to be graded."""

import pytest
from nbgrader.utils import determine_grade, is_grade, is_solution

from autograder.course import canonical
from autograder.course.paths import NOTEBOOKS, SOLUTIONS, lessons
from autograder.locale.notebook_translation import UNWRITTEN, in_language

NAMES = [path.stem for path in lessons(NOTEBOOKS) if path.stem[:2].isdigit()]


def written(notebook):
    """Return the cells that a person grades."""
    return [cell for cell in notebook.cells if cell.cell_type == "markdown" and is_grade(cell) and is_solution(cell)]


def released(name):
    """Return a lesson's notebook as it is handed out."""
    return canonical.read(NOTEBOOKS / name / f"{name}.ipynb")


@pytest.mark.parametrize("spoken", ["en", "zh-CN"])
@pytest.mark.parametrize("name", NAMES)
def test_an_empty_answer_waits_for_nobody(name, spoken):
    """Nbgrader itself gives an untouched answer its 0 points, and leaves any other to a person."""
    notebook = in_language(released(name), spoken)
    (cell,) = written(notebook)
    assert cell.source == UNWRITTEN
    assert determine_grade(cell)[0] == 0
    cell.source = "It shares the storage."
    assert determine_grade(cell)[0] is None


@pytest.mark.parametrize("name", NAMES)
def test_the_release_has_the_question_and_not_the_answer(name):
    """The source's answer is not in the released cells."""
    (model,) = written(canonical.read(SOLUTIONS / name / f"{name}.ipynb"))
    assert len(model.source.split()) > 40
    assert model.source.splitlines()[0] not in "\n".join(cell.source for cell in released(name).cells)
