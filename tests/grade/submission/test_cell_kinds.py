"""The kind of a test, as determined by the text of its source.

Oracle for each test that must be judged in process: a wrong answer that nbgrader grades differently from a judge with
copies of plain values; it is named next to the test.
"""

import pytest

from tests.grade.small_course import answer, graded_cell, source, teacher

ROWS = answer("a", "def grid(n):\n    return [[0] * n for _ in range(n)]")
IN_PROCESS = {
    # `[[0] * n] * n` has one row, n times
    "an item of a result is set": (ROWS, "g = grid(2)\ng[0][0] = 1\nassert g == [[1, 0], [0, 0]]"),
    "a method changes a result": (ROWS, "g = grid(2)\nfor row in g:\n    row.append(1)\nassert g == [[0, 0, 1]] * 2"),
    "a result is changed in a function": (ROWS, "def t():\n    g = grid(2)\n    g[0][0] = 1\n    assert g[1][0] == 0\nt()"),
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
