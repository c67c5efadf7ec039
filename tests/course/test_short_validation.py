"""JupyterLab's *Validate* says in a few lines which exercises did not pass, and why."""

from types import SimpleNamespace

import nbformat
import pytest

from autograder.course.short_validation import ShortValidationHandler, short_entries
from tests.grade import plain_course

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
