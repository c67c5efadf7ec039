"""A grade depends only on the submission, the source, the settings and the seed: not on earlier submissions or borrowed values."""

import itertools

import pytest

from tests.grade.small_course import answer, graded_cell, hand_in, points, source, teacher

# How a test forbids a function: what it needs of the library first, and the line that takes it away and is never undone.
FORBIDDING = [
    ("import numpy as np\nassert np.linalg.solve([[2.0]], [4.0])[0] == f(1)", "np.linalg.solve = None"),
    ("from numpy import linalg\nassert linalg.det([[2.0]]) == f(1)", "linalg.det = None"),
    ("import numpy as np\nassert np.linalg.norm([2.0]) == f(1)", "for name in ['norm']: setattr(np.linalg, name, None)"),
    ("import math\nassert math.sqrt(4) == f(1)", "del math.sqrt"),
    ("import torch\nassert torch.ones(2).sum() == f(1)", "torch.Tensor.sum = None"),
    ("import builtins\nassert callable(input) and f(1) == 2", "builtins.input = None"),
    ("import sys, colorsys\nassert f(1) == 2", "sys.modules['colorsys'] = None"),
    ("import fractions\nassert fractions.Fraction(4, 2) == f(1)", "fractions.Fraction = None"),
]  # fmt: skip


@pytest.mark.parametrize(("needs", "forbids"), FORBIDDING, ids=[forbids for _, forbids in FORBIDDING])
def test_what_a_test_takes_away_is_there_for_the_next_student(grader, needs, forbids):
    """Three right students in a row have their point, though the test breaks a library for good."""
    of = source(answer("a", "def f(x):\n    return 2 * x"), graded_cell("t", f"{needs}\n{forbids}"))
    assert [{"t": 1.0}] * 3 == [points(grader.grade(of, hand_in(of), {}, 7)) for _ in range(3)]


def graded(grader, of, answers=None):
    """Return the points of each cell of a submission."""
    return points(grader.grade(of, hand_in(of, answers), {}, 7))


def in_every_order(grader, make, hand_ins):
    """Return the points of each submission, which are the same in any order of the class."""
    found = []
    for order in itertools.permutations(range(len(hand_ins))):
        of = make()
        rows = {index: graded(grader, of, hand_ins[index]) for index in order}
        found.append([rows[index] for index in range(len(hand_ins))])
    assert all(rows == found[0] for rows in found)
    return found[0]


def test_equal_values_of_other_types_have_their_own_verdicts(grader):
    """[1, 0, 1] == [True, False, True], and yet only one of them is the right answer."""

    def make():
        test = graded_cell("t", f"assert all(type(one) is bool for one in flags)  # {next(numbers)}")
        return source(answer("a", "flags = [True, False, True]"), test)

    numbers = itertools.count()
    hand_ins = [{"a": "flags = [1, 0, 1]"}, {"a": "flags = [True, False, True]"}]
    assert [{"t": 0.0}, {"t": 1.0}] == in_every_order(grader, make, hand_ins)


def test_a_test_that_uses_what_an_earlier_test_bound_has_no_memory(grader):
    """The second test does not look up names itself, so its names do not show to which submission its result belongs."""

    def make():
        tests = [graded_cell("one", f"found = f(3)  # {next(numbers)}"), graded_cell("two", "assert found == 9")]
        return source(answer("a", "def f(x):\n    return x * x"), *tests)

    numbers = itertools.count()
    hand_ins = [None, {"a": "pass"}, {"a": "def f(x):\n    return x"}]
    expected = [{"one": 1.0, "two": 1.0}, {"one": 0.0, "two": 0.0}, {"one": 1.0, "two": 0.0}]
    assert expected == in_every_order(grader, make, hand_ins)


def test_a_teachers_cell_that_uses_the_answer_has_no_memory(grader):
    """The value that it computed for one submission is computed again for the next."""

    def make():
        cells = [
            answer("a", "y = 3"),
            teacher(f"total = y + {next(numbers)} * 0"),
            graded_cell("t", "assert total == 3"),
        ]
        return source(*cells)

    numbers = itertools.count()
    assert [{"t": 1.0}, {"t": 0.0}] == in_every_order(grader, make, [None, {"a": "y = 4"}])


def test_tests_draw_the_same_numbers_for_everyone(grader):
    """Random numbers and settings of a test are not visible to the next submission; a teacher's seed stays in effect."""

    def make():
        tests = [
            graded_cell("own", f"import random\nassert 0 <= random.random() and f(1) == 1  # {next(numbers)}"),
            graded_cell("seeded", "import numpy as np\nassert abs(np.random.rand() - 0.3745401188473625) < 1e-12"),
            graded_cell("kept", "import os\nassert 'LEFT' not in os.environ\nos.environ['LEFT'] = '1'"),
        ]
        return source(teacher("import numpy as np\nnp.random.seed(42)"), answer("a", "def f(x):\n    return x"), *tests)

    numbers = itertools.count()
    rows = in_every_order(grader, make, [None, {"a": "def f(x):\n    return 2"}])
    assert [{"own": 1.0, "seeded": 1.0, "kept": 1.0}, {"own": 0.0, "seeded": 1.0, "kept": 1.0}] == rows


def test_only_the_solutions_own_import_gives_no_point(grader):
    """If the task is an import, the unchanged release does not have the name."""
    of = source(answer("a", "import math as numbers"), graded_cell("t", "assert numbers.pi > 3"))
    assert {"t": 0.0} == graded(grader, of, {})


FILES = {
    "data/w.csv": b"1,2,3\n",
    "helpers.py": b"import os\ndef reference(x):\n    return x * 2\ndef place():\n    return os.path.dirname(__file__)\n",
    "tools/__init__.py": b"",
    "tools/more.py": b"from helpers import reference\n",
}


def test_tests_read_the_teachers_files_and_import_the_teachers_modules(grader):
    """Data by relative paths and modules in packages, in setup cells and in tests, here and in the answer's process."""
    of = source(
        teacher("import numpy as np\nfrom helpers import reference\nw_true = np.loadtxt('data/w.csv', delimiter=',')"),
        answer("a", "from helpers import reference as double\nfrom tools import more\nw = double(w_true)\n"),
        graded_cell(
            "t",
            "from tools.more import reference as again\nassert again(2) == 4\nassert (w == reference(w_true)).all()",
        ),
        files=FILES,
    )
    assert {"t": 1.0} == graded(grader, of)
    assert {"t": 0.0} == graded(grader, of, {"a": "w = w_true * 0"})


def test_a_name_of_the_teachers_is_never_borrowed(grader):
    """If the teacher's cell fails outside the submission's process, a forged name has no effect, and the reason names the error."""
    of = source(
        teacher("import numpy as np\nw_true = np.loadtxt('missing.csv')"),
        answer("a", "w = w_true"),
        graded_cell("t", "assert (w == w_true).all()"),
    )
    found = grader.grade(of, hand_in(of, {"a": "import numpy as np\nw = w_true = np.zeros(3)"}), {}, 7).cells["t"]
    assert (0.0, "incorrect") == (found.points, found.status)
    assert "the teacher's cell ended with FileNotFoundError" in found.reason


CHANGED = {
    "values": ("x = 5\ny = x + 1", "x = ...\ny = ...", "assert x == 5 and y == 6"),
    "a function": ("def f(x):\n    return x * x", "def f(x):\n    return ...", "assert f(3) == 9"),
    "what a later cell computes": ("rows = [1, 2]", "rows = []", "assert total == 3"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_cell_that_students_may_change_counts_as_they_changed_it(grader, name):
    """A course may ask for answers in cells that nbgrader does not know; as in one kernel, the student's text counts."""
    right, wrong, test = CHANGED[name]
    later = [teacher("total = sum(rows)")] if "rows" in right else []

    def points_of(text):
        of = source(teacher(right), *later, answer("a", "done = True"), graded_cell("t", test))
        submitted = source(teacher(text), *later, answer("a", "done = True"), graded_cell("t", test))
        return points(grader.grade(of, hand_in(submitted), {}, 7))["t"]

    assert [1.0, 0.0] == [points_of(right), points_of(wrong)]


def test_a_teachers_cell_that_fails_over_the_answer_is_the_answers_fault(grader):
    """It uses a name of the student's, so the test is judged in process, as in one kernel."""
    of = source(
        answer("a", "def f(x):\n    return x"), teacher("found = f(2) / f(2)"), graded_cell("t", "assert found == 1")
    )
    found = grader.grade(of, hand_in(of, {"a": "def f(x):\n    return 0"}), {}, 7).cells["t"]
    assert (0.0, "incorrect") == (found.points, found.status)
    assert ("in process", True) == (found.kind, "found" in found.reason)
    assert {"t": 1.0} == graded(grader, of)


def test_a_learners_module_is_never_imported_here(grader):
    """Neither a module next to the notebook nor one that its cells write is imported; the teacher's module of that name is used."""
    of = source(
        answer("a", "x = 1"),
        graded_cell("t", "import helpers\nassert helpers.reference(1) == 2 and x == 1"),
        files=FILES,
    )
    forged = {"helpers.py": b"reference = lambda x: 1 / 0", "other.py": b"raise SystemExit"}
    written = "x = 1\nopen('helpers.py', 'w').write('1 / 0')\nopen('other.py', 'w').write('1 / 0')"
    assert {"t": 1.0} == points(grader.grade(of, hand_in(of, {"a": written}), forged, 7))
    of = source(answer("a", "x = 1"), graded_cell("t", "import other"), files=FILES)
    found = grader.grade(of, hand_in(of, {"a": written}), forged, 7).cells["t"]
    assert "ModuleNotFoundError" in found.reason


def test_the_teachers_modules_carry_nothing_to_the_next_submission(grader):
    """A module that counts its calls starts again for each submission; its folder does not contain files that tests have written."""
    counting = {"counting.py": b"calls = []\n"}
    test = graded_cell(
        "t",
        "import os, counting\ncounting.calls.append(x)\nopen('left', 'a').write('1')\n"
        "assert len(counting.calls) == 1 == os.path.getsize('left')",
    )
    of = source(answer("a", "x = 1"), test, files=counting)
    assert [{"t": 1.0}] * 3 == [graded(grader, of, {"a": f"x = {n}"}) for n in range(3)]
