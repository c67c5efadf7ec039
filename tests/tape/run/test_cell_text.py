"""Notebook cells as Python: the same statements on the same lines as IPython makes of them."""

import ast
import itertools
import json

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from autograder.tape.run.programs.notebook_text import python_of_cell
from tests.commands import autograder

PLAIN = [
    "n = 3 # context length: how many?",
    'prompt = """\n!important\n%time f()\nready?\n"""',
    "x = [1,\n  5 % 2,\n  7]",
    "total = (a\n  % b)",
    "if n:\n    y = 1\nelse:\n    y = 2",
    "def f(a, b='!ls'):\n    # why?\n    return a % b",
    "s = 'is it?' # yes?",
    "print(f'{n=!r} {n!s}')",
    'z = "a = !ls"',
    "mask = x != y",
    "first = \\\n  second",
]
REPLACED = [
    "%matplotlib inline",
    "!pip install torch  # it's needed",
    "!ls \\\n  -l",
    "files = !ls",
    "a.b[0] = !ls 'x",
    "seed = %env SEED",
    "f?",
    "torch.exp??",
    "?f",
    "if n:\n    !ls\n    y = 1",
    "for i in x:\n    %cd ..",
    "with f() as g:\n    names = !ls\n    y = 2",
]


def as_ipython_reads(cell):
    """The statements that IPython makes of a cell; its calls of magics are None, of commands []."""

    class WithoutShell(ast.NodeTransformer):
        def visit_Expr(self, node):
            return ast.Pass() if ast.unparse(node).startswith("get_ipython().") else node

        def visit_Assign(self, node):
            value = ast.unparse(node.value)
            if value.startswith("get_ipython()."):
                node.value = ast.List([], ast.Load()) if ".getoutput(" in value else ast.Constant(None)
            return node

    return statements(WithoutShell().visit(ast.parse(TransformerManager().transform_cell(cell))))


def statements(tree):
    """The statements of a program as text; one without effect may be left out at the top."""
    return [ast.unparse(one) for one in tree.body if not isinstance(one, ast.Pass)]


@pytest.mark.parametrize("first", [*PLAIN, *REPLACED])
def test_a_cell_has_the_statements_that_ipython_reads(first):
    """Alone, and before and after each of the other statements; Python stays as it is, on its own lines."""
    for cell in [first, *(f"{first}\n{second}" for second in (*PLAIN, *REPLACED))]:
        python = python_of_cell(cell)
        assert cell.count("\n") == python.count("\n")
        assert as_ipython_reads(cell) == statements(ast.parse(python)), cell


@pytest.mark.parametrize(("one", "other"), itertools.pairwise([*PLAIN, PLAIN[0]]))
def test_python_stays_as_it_is(one, other):
    """A `?`, `!` or `%` in a comment, a string or an expression has no effect."""
    assert f"{one}\n{other}" == python_of_cell(f"{one}\n{other}")


@pytest.mark.parametrize(
    ("cell", "python"),
    [
        pytest.param("%time h += 1", "h += 1", id="time"),
        pytest.param("    %timeit -n 10 -r3 f(h)", "    f(h)", id="timeit with options"),
        pytest.param("%prun -s cumulative -q f(-h)", "f(-h)", id="prun with options"),
        pytest.param("y = %time f(h)", "y = f(h)", id="value of time"),
        pytest.param("t = %timeit -o f(h)", "f(h); t = None", id="value of timeit"),
        pytest.param("%time !ls", "# %time !ls", id="a command in time"),
        pytest.param("%%time\nh += 1", "# %%time\nh += 1", id="cell of time"),
        pytest.param("%%timeit -n 1 h = f()\nh += 1", "h = f()\nh += 1", id="cell of timeit with its setup"),
        pytest.param("\n%%capture out --no-stderr\nh += 1", "\n# %%capture out --no-stderr\nh += 1", id="capture"),
        pytest.param("%%bash\nls $h?", "# %%bash\n# ls $h?", id="another language"),
    ],
)
def test_python_in_a_magic_runs_once(cell, python):
    """`%time`, `%timeit`, `%prun` and their cell magics give their code; the body of any other cell magic is left out."""
    assert python == python_of_cell(cell)


def notebook(*cells):
    """A notebook as JSON."""
    code = [{"cell_type": "code", "id": f"c{number}", "metadata": {}, "execution_count": None, "outputs": [],
             "source": cell.splitlines(keepends=True)} for number, cell in enumerate(cells)]  # fmt: skip
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": code})


def test_a_lecture_is_explained_as_it_is(tmp_path):
    """Commands give [], `display` and `get_ipython` exist, and the repair of a line in a magic keeps the magic."""
    path = tmp_path / "lecture.ipynb"
    path.write_text(notebook(
        "import torch\n%matplotlib inline\nget_ipython().run_line_magic('env', 'A=1')",
        'n = 3 # how many?\nprompt = """\n!important\nready?\n"""\nfiles = !ls\ndisplay(files)\n'
        "assert files == [] and prompt.count('\\n') == 3 and get_ipython().getoutput('ls') == []",
        "w = torch.ones(n, requires_grad=True)\na = w.exp()\n%time a += 1\na.sum().backward()",
    ))  # fmt: skip
    found = json.loads(autograder("explain", path.name, "--json", cwd=tmp_path).stdout)
    assert "raises-backward" == found["outcome"]
    assert ["a += 1"] == [place["text"] for place in found["harms"][0]["mutated_at"]]
    assert any("cell 3, line 3" in note for note in found["notes"])
    autograder("explain", path.name, "--apply", cwd=tmp_path)
    assert "%time a = a + 1\n" in json.loads(path.read_text())["cells"][2]["source"]
