"""A small assignment to attack: one check, one test with a hidden part, one value that only the teacher knows."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tests.grade.plain_course import known

ASSIGNMENT = "attacked"
SECRET = 41317
POINTS = {"scaled": 2.0, "mean_square": 3.0, "number": 3.0}

SETUP = "import torch\n\nfrom autograder.check import check, leaf, result"
CHECK = '''
"""The value stays, the caller's memory holds ones, and the gradients are right."""


def given(d, w):
    f = d * w
    d[:] = 1
    return f


check("scaled", like=given, d=result("n", 3), w=leaf(3))
'''
TEST = f"""
assert mean_square([1.0, 3.0]) == 5.0
### BEGIN HIDDEN TESTS: other numbers
assert mean_square([{SECRET}.0]) == {SECRET}.0 ** 2
assert torch.allclose(torch.tensor(mean_square([0.5, 1.5, 2.5])), torch.tensor(8.75 / 3))
### END HIDDEN TESTS
"""
NUMBER = f"""
### BEGIN HIDDEN TESTS: the number
assert number == {SECRET}
### END HIDDEN TESTS
"""
RIGHT = {
    "scaled": "def scaled(d, w):\n    f = d.clone() * w\n    d[:] = 1\n    return f",
    "mean_square": "def mean_square(values):\n    return sum(value * value for value in values) / len(values)",
    "number": f"number = {SECRET}",
}
WRONG = {
    "scaled": "def scaled(d, w):\n    return d + w",
    "mean_square": "def mean_square(values):\n    return 0.0",
    "number": "number = 0",
}


def source() -> NotebookNode:
    """Return the teacher's notebook, model answers included."""
    cells = [nbformat.v4.new_code_cell(SETUP)]
    for name, test in (("scaled", CHECK), ("mean_square", TEST), ("number", NUMBER)):
        cells.append(known(nbformat.v4.new_code_cell(RIGHT[name]), f"answer_{name}", solution=True))
        cells.append(known(nbformat.v4.new_code_cell(test.strip()), name, points=POINTS[name]))
    return nbformat.v4.new_notebook(
        cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    )


def submitted(answers: dict[str, str]) -> NotebookNode:
    """Return a student's notebook with these answers, hidden tests left out."""
    notebook = source()
    for cell in notebook.cells:
        grading = cell.metadata.get("nbgrader", {})
        name = grading.get("grade_id", "").removeprefix("answer_")
        if grading.get("solution"):
            cell.source = answers[name]
        elif grading:
            cell.source = cell.source.partition("### BEGIN")[0].strip() or "# hidden tests"
    return notebook


def write_source(folder: Path) -> None:
    """Write the assignment into nbgrader's source folder."""
    target = folder / "source" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    target.parent.mkdir(parents=True)
    target.write_text(nbformat.writes(source()), "utf-8")
