"""A submission's cells are read as IPython reads them."""

from __future__ import annotations

import json

import nbformat
import pytest
from IPython.core.inputtransformer2 import ESCAPE_DOUBLES, ESCAPE_SINGLES, TransformerManager

from autograder.course.paths import SOLUTIONS
from autograder.grade.sandbox.shell import _Transformers

SPECIAL_FORMS = [
    *(f"{escape}name more" for escape in sorted(ESCAPE_SINGLES | ESCAPE_DOUBLES)),
    "if True:\n    /print 1\n    ,print a b\n\t;print a b",
    "x = 1\n  \n/print x",
    "a = %pwd",
    "lines = !ls",
    "def f():\n    a = !ls\n    return a",
    "torch.Tensor?",
    "torch.Tensor??",
    "%%time\nx = 1",
    ">>> x = 1\n... + 2",
    "In [1]: x = 1\n   ...: y = 2",
    "\n\n    x = 1\n    y = 2",
    "x = 1 \\\n  / 2",
    "x = (1\n/ 2)",
    "x = '''\n, not a call\n'''",
    "",
    "x = (1",
]


@pytest.mark.parametrize("text", SPECIAL_FORMS)
def test_a_special_form_becomes_what_ipython_makes_of_it(text):
    """Each special form of IPython, and text that resembles one, is transformed as by IPython itself."""
    assert _Transformers().transform_cell(text) == TransformerManager().transform_cell(text)


def test_the_lessons_cells_become_what_ipython_makes_of_them():
    """Each cell of the lessons is transformed as by IPython itself."""
    notebooks = sorted(SOLUTIONS.glob("*/*.ipynb"))
    cells = [cell for path in notebooks for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    assert len(cells) > 400, json.dumps([path.name for path in notebooks])
    ours, theirs = _Transformers(), TransformerManager()
    assert [
        cell.source for cell in cells if ours.transform_cell(cell.source) != theirs.transform_cell(cell.source)
    ] == []
