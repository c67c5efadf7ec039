"""Facts found in code without running it, and the kind of a test, which the text of its source determines."""

import pytest

from autograder.grade.submission.cell_analysis import SubmissionText, bound_names, cell_names, definitions, statements
from tests.grade.small_course import answer, graded_cell, source, teacher


def names(text: str) -> set[str]:
    """Return the names that a cell binds."""
    return set().union(*map(bound_names, statements(text)))


@pytest.mark.parametrize(("text", "expected"), [
    ("x = y = 1", {"x", "y"}),
    ("import torch.nn as nn, math", {"nn", "math"}),
    ("import os.path", {"os"}),
    ("def f(a):\n    inner = a", {"f"}),
    ("for i in range(3):\n    total = i", {"i", "total"}),
    ("(a, *rest), b.c = z", {"a", "rest"}),
    ("if (n := 3): pass", {"n"}),
    ("%matplotlib inline\nx = 1", {"x"}),
    ("def (", set()),
])  # fmt: skip
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


def test_another_name_of_a_function_has_its_source():
    """As in one kernel, where `inspect.getsource(f)` is the text of the first `f`: a name that is bound later changes nothing."""
    text = SubmissionText(["def f(x):\n    return x", "kept = f\ndef f(x):\n    return -x\ng = f", "f = g = kept"])
    assert "def f(x):\n    return x" == text.definition("f") == text.definition("g")
    assert SubmissionText(["def h(): pass\nf = h\nf, g = g, f"]).definition("f") is None


NOT_PYTHON = ["def f():\n        x = 1\n    y = 2", "def f(:", "\0", '"' * 3, "!ls\n  %%x", "f(" * 300]


@pytest.mark.parametrize("cell", NOT_PYTHON)
def test_a_cell_that_is_not_python_defines_no_function(cell):
    """Whatever IPython's tokenizer does with it; the functions of other cells are still found."""
    assert SubmissionText([cell]).definition("f") is None
    assert SubmissionText(["def g(): pass", cell]).definition("g") == "def g(): pass"


ROWS = answer("a", "def grid(n):\n    return [[0] * n for _ in range(n)]")
IN_PROCESS = {
    # `[[0] * n] * n` has one row, n times
    "an item of a result is set": (ROWS, "g = grid(2)\ng[0][0] = 1\nassert g == [[1, 0], [0, 0]]"),
    "a method changes a result": (ROWS, "g = grid(2)\nfor row in g:\n    row.append(1)\nassert g == [[0, 0, 1]] * 2"),
    "a result is changed in a function": (ROWS, "def t():\n    g = grid(2)\n    g[0][0] = 1\n    assert g[1][0] == 0\nt()"),
    # nbgrader's own example (`nbgrader quickstart`, 0.9.6)
    "a name of the answers is deleted for a while": (
        answer("a", "def squares(n):\n    return [n]\ndef total(n):\n    return sum(squares(n))"),
        "kept = squares\ndel squares\ntry:\n    total(1)\nexcept NameError:\n    pass\nfinally:\n    squares = kept",
    ),
    # an answer that sets the option itself, or depends on it
    "a context changes a setting": (ROWS, "import numpy as np\nwith np.errstate(all='raise'):\n    assert grid(1) == [[0]]"),
    "warnings are recorded": (
        ROWS,
        "import warnings\nwith warnings.catch_warnings(record=True) as seen:\n    grid(1)\nassert not seen",
    ),
    "a setting is changed": (ROWS, "import os\nos.chdir('/')\nassert grid(1) == [[0]]"),
    # an answer that makes the file
    "a folder is listed": (ROWS, "import os\ngrid(1)\nassert 'out' in os.listdir('.')"),
    "identity by a method": (ROWS, "import unittest\nunittest.TestCase().assertIs(grid(1), grid(1))"),
    "the size of an object": (ROWS, "import sys\nassert sys.getsizeof(grid(1)) < 100"),
    "the strides of an array": (ROWS, "import numpy as np\nassert np.array(grid(2)).strides == (16, 8)"),
    "IPython's history": (ROWS, "assert 'for' in In[1]"),
    "a doctest": (ROWS, "import doctest\nassert doctest.testmod().failed == 0"),
    # an answer that draws in another order
    "a seed of an answer that draws": (
        answer("a", "import random\ndef roll():\n    return random.randint(1, 6)"),
        "random.seed(1)\nassert roll() == 2",
    ),
}  # fmt: skip
OUTSIDE = {
    "a seed of the test's own inputs": (ROWS, "import random\nrandom.seed(1)\nn = random.randint(1, 4)\nassert len(grid(n)) == n"),
    "a sum of results": (ROWS, "total = 0\nfor n in (1, 2):\n    total += len(grid(n))\nassert total == 3"),
    "an error is expected": (ROWS, "import pytest\nwith pytest.raises(TypeError):\n    grid('a')"),
    "an underscore of the test's own": (ROWS, "for _ in range(2):\n    assert grid(1) == [[0]]\n_ = 3\nassert _ == 3"),
    "a list of the test's own": (ROWS, "sizes = []\nsizes.append(1)\nassert grid(sizes[0]) == [[0]]"),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PROCESS)
def test_a_test_that_plain_values_cannot_judge_runs_in_process(name):
    """The kind is in process, with a reason, though the model answer would pass outside."""
    solution, text = IN_PROCESS[name]
    kind = source(solution, graded_cell("t", text)).kinds["t"]
    assert "in process" == kind.kind
    assert kind.reason


def test_no_reason_claims_a_setting_that_only_may_change():
    """A test's own stopwatch changes none, but no reader of the text can tell."""
    text = (
        "class Timer:\n    def __enter__(self): ...\n    def __exit__(self, *_): ...\nwith Timer() as t:\n    grid(1)"
    )
    kind = source(ROWS, graded_cell("t", text)).kinds["t"]
    assert "it calls the answer within `with Timer()`, which may change a setting" == kind.reason


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_test_on_plain_values_runs_outside(name):
    """Tests that only look like those above are judged in a judge."""
    solution, text = OUTSIDE[name]
    kind = source(solution, graded_cell("t", text)).kinds["t"]
    assert ("plain data", "") == (kind.kind, kind.reason)


def test_a_cell_that_changes_a_needed_object_brings_what_it_needs():
    """The teacher's cell that appends to a list needs the cell before it, which binds what is appended."""
    of = source(
        teacher("rows = []"), teacher("first = 3"), teacher("rows.append(first)"), ROWS, graded_cell("t", "assert len(grid(rows[0])) == 3")
    )  # fmt: skip
    texts = [of.cells[index].text for index in of.kinds["t"].setup]
    assert ["rows = []", "first = 3", "rows.append(first)"] == texts


@pytest.mark.parametrize(("text", "needs"), [
    ("assert [f(n) for n in range(3)] == [0, 1, 4]", {"f"}),
    ("assert all(f(n) == g(n) for n in given)", {"f", "g", "given"}),
    ("rows = [[f(i) for i in range(k)] for k in {name for name in sizes}]", {"f", "sizes"}),
    ("def helper():\n    return [f(n) for n in given]", {"f", "given"}),
])  # fmt: skip
def test_names_in_a_comprehension_are_needed(text, needs):
    """A comprehension has its own scope, and runs with its statement."""
    assert needs == cell_names(text).needs
