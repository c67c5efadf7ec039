"""Which cells a test needs, and whose a name is: read from the text alone."""

import pytest

from autograder.grade.submission.teacher.name_use import name_use
from tests.grade.small_course import answer, graded_cell, source, teacher


@pytest.mark.parametrize(
    ("text", "reads", "binds", "changes"),
    [
        ("x = y + 1", {"y"}, {"x"}, set()),
        ("x = 1\nx + 1", set(), {"x"}, set()),
        ("x += 1", {"x"}, {"x"}, {"x"}),
        ("[a * k for a in rows]", {"k", "rows"}, set(), set()),
        ("for row in rows: row.append(1)", {"rows", "row"}, {"row"}, {"row", "rows"}),
        ("df['a'] = df.b", {"df"}, set(), {"df"}),
        ("del d[0]", {"d"}, set(), {"d"}),
        ("import numpy as np\nnp.random.seed(0)", set(), {"np"}, {"np", "import numpy"}),
        ("import numpy as np\nx = np.zeros(3)", set(), {"np", "x"}, set()),
        ("random.shuffle(deck)", {"random", "deck"}, set(), {"random", "deck"}),
        ("print(x)", {"print", "x"}, set(), set()),
        ("def f(a, b=c):\n    return a + g", {"c"}, {"f"}, set()),
        ("class C(B):\n    k = v", {"B", "v"}, {"C"}, set()),
        ("def f():\n    global n\n    n = 1", set(), {"f", "n"}, set()),
        ("%%time\nx = y", {"get_ipython"}, set(), set()),
        ("x = (", set(), set(), set()),
    ],
)
def test_what_a_cell_does_with_names(text, reads, binds, changes):
    """Read from outside, bound, changed without being bound; as Python's own scopes have it."""
    use = name_use(text)
    assert (reads, binds) == (set(use.reads), set(use.binds))
    assert changes == set(use.changes) - {"get_ipython"}


def test_what_a_helper_needs_is_needed_when_it_is_called():
    """The names in a function's body, not its own ones, and not those that its cell binds below it."""
    assert {"scale"} == name_use("def f(a):\n    b = a\n    return g(b) * scale\ndef g(b):\n    return b").late


def needs(*cells):
    """Returns the texts of the needed cells, the teacher's names and the learner's for the last cell, a test."""
    of = source(*cells)
    found = of.setup.needs(of.cells[-1])
    return [cell.text for cell in found.cells], set(found.teachers), set(found.learners)


SOLUTION = answer("a", "def f(x):\n    return x")


def test_everything_that_changes_a_needed_name_is_needed():
    """Not only the last binder: the cells between it and the test, and what these use; demonstrations are left out."""
    cells = [
        teacher("import numpy as np"),
        teacher("rows = [1]"),
        teacher("def more(items):\n    items.append(np.pi)"),
        teacher("other = rows[0]\nprint(other)"),
        teacher("more(rows)"),
        SOLUTION,
    ]
    texts, teachers, learners = needs(*cells, graded_cell("t", "assert f(rows) == rows"))
    assert [cells[0].source, cells[1].source, cells[2].source, cells[4].source] == texts
    assert ({"rows"}, {"f"}) == (teachers & {"rows", "f"}, learners)


def test_seeds_and_settings_of_a_module_are_needed():
    """A cell that sets a module's state belongs to the tests that use the module."""
    cells = [teacher("import numpy as np"), teacher("np.random.seed(3)"), teacher("x = np.zeros(2)\nx"), SOLUTION]
    texts, _, _ = needs(*cells, graded_cell("t", "assert f(np.random.rand()) == 1"))
    assert [cells[0].source, cells[1].source] == texts
    texts, _, _ = needs(*cells, graded_cell("t", "import numpy\nassert f(numpy.random.rand()) == 1"))
    assert cells[1].source in texts


def test_the_last_definition_decides_whose_a_name_is():
    """A solution that binds a teacher's name, or writes into it, makes it the learner's; one that only reads it does not."""
    use = graded_cell("t", "assert x == [1]")
    assert {"x"} == needs(teacher("x = None"), answer("a", "x = [1]"), use)[2]
    assert {"x"} == needs(teacher("x = []"), answer("a", "x.append(1)"), use)[2]
    assert {"x"} == needs(teacher("x = []"), answer("a", "y = len(x)"), use)[1]
    assert {"x"} == needs(answer("a", "x = 3"), teacher("x = [1]"), use)[1]


def test_only_the_solutions_own_imports_are_the_learners():
    """`import numpy` as a task is the learner's; what a teacher's cell imports stays the teacher's if the solution repeats it."""
    use = graded_cell("t", "assert np.pi > 3")
    assert {"np"} == needs(answer("a", "import numpy as np"), use)[2]
    assert {"np"} == needs(teacher("import numpy as np"), answer("a", "import numpy as np"), use)[1]


def test_tests_that_share_data_are_not_independent():
    """A name that one test binds or may change and another uses; what both only read does not matter."""

    def independent(*texts):
        of = source(
            teacher("limit = 3\nseen = []"), SOLUTION, *(graded_cell(f"t{i}", text) for i, text in enumerate(texts))
        )
        return [of.setup.is_independent(cell) for cell in of.tests]

    assert [True, True] == independent("assert f(1) < limit", "assert f(2) < limit")
    assert [False, False] == independent("found = f(1)", "assert found == 1")
    assert [False, False] == independent("f(seen)", "assert seen == []")
    assert [True, True] == independent("given = 1\nf(given)", "given = 2\nf(given)")


def test_dependents_of_a_test():
    """Tests that use what it binds, and those that use what these bind."""
    of = source(
        SOLUTION,
        graded_cell("a", "u = 1"),
        graded_cell("b", "v = u"),
        graded_cell("c", "assert v"),
        graded_cell("d", "assert f"),
    )
    assert {"a", "b", "c"} == of.with_dependents(["a"])
