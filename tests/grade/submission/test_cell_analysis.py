"""Facts that are found in a student's code without running it."""

import pytest

from autograder.grade.submission.cell_analysis import SubmissionText, bound_names, definitions, statements


def names(text: str) -> set[str]:
    """Return the names that a cell binds."""
    return set().union(*map(bound_names, statements(text)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = y = 1", {"x", "y"}),
        ("import torch.nn as nn, math", {"nn", "math"}),
        ("import os.path", {"os"}),
        ("def f(a):\n    inner = a", {"f"}),
        ("for i in range(3):\n    total = i", {"i", "total"}),
        ("(a, *rest), b.c = z", {"a", "rest"}),
        ("if (n := 3): pass", {"n"}),
        ("%matplotlib inline\nx = 1", {"x"}),
        ("def (", set()),
    ],
)
def test_names_a_cell_binds(text, expected):
    """Oracle: where the cell can run by itself, the names that running it leaves."""
    assert expected == names(text)


def test_definitions_are_what_later_cells_may_use():
    """Import, functions and classes, without decorators; no statement that does something."""
    text = definitions("import math\nprint(1)\n@cache\ndef f():\n    return 2\nx = f()")
    space = {}
    exec(text, space)

    assert 2 == space["f"]()
    assert "print" not in text
    assert "cache" not in text


def test_words_follow_what_an_answer_uses():
    """The words of a helper count for the function that calls it, those of an unrelated cell do not."""
    text = SubmissionText(
        [
            "def helper(x):\n    return x.detach()",
            "def answer(x):\n    return helper(x)",
            "print('sorted')\nsorted([1])",
        ]
    )

    assert {"helper", "detach"} <= set(text.words("answer"))
    assert "sorted" not in text.words("answer")


def test_the_last_definition_counts():
    """The second of two definitions of a function is compared; comments and layout are not code."""
    text = SubmissionText(["def f(x):\n    return x", "def f( x ):\n    # twice\n    return x*2"])
    same = SubmissionText(["def f(x): return x * 2"])

    assert text.code("f") == same.code("f") != SubmissionText(["def f(x): return x"]).code("f")
    assert text.code("g") is None


NOT_PYTHON = ["def f():\n        x = 1\n    y = 2", "def f(:", "\0", '"' * 3, "!ls\n  %%x", "f(" * 300]


@pytest.mark.parametrize("cell", NOT_PYTHON)
def test_a_cell_that_is_not_python_defines_no_function(cell):
    """Whatever IPython's tokenizer does with it; the functions of other cells are still found."""
    assert SubmissionText([cell]).definition("f") is None
    assert SubmissionText(["def g(): pass", cell]).definition("g") == "def g(): pass"
