"""The process in which a test is judged: its checks and modules, the data that a submission can read there, and forbidden names."""

from dataclasses import replace

import msgspec
import nbformat
import pytest

from autograder.errors import InputError
from autograder.grade.submission.teacher.source import plan_all_in_process, plan_of_source
from tests.grade.conftest import LIMITS, grader_of
from tests.grade.hostile.forbidden_names import ALLOWED, ANSWER, HELPER
from tests.grade.hostile.forbidden_names import HIDDEN as HIDDEN_NAMES
from tests.grade.small_course import answer, graded_cell, hand_in, points, source, teacher

ONE = {"autograder": {"process": "one"}}
HIDDEN = "\n### BEGIN HIDDEN TESTS\nassert f(7) == 49 # secret\n### END HIDDEN TESTS"
SOLUTION = answer("a", "def f(x):\n    return x * x\nhistory = lambda: repr(In)")


def outputs(graded):
    """Return everything that the graded notebook shows below its cells."""
    return str([cell.get("outputs") for cell in nbformat.reads(graded.notebook, 4).cells])


def test_a_cell_may_say_that_it_is_judged_in_one_process(grader):
    """Only that test runs in the process of the answers, and each grade states where its test ran."""
    of = source(
        SOLUTION,
        graded_cell("two", "assert f(3) == 9"),
        graded_cell("one", "import sys\nassert sys._getframe().f_globals['f'] is f and f(3) == 9", **ONE),
    )
    found = grader.grade(of, hand_in(of), {}, 7).cells
    assert {"two": "plain data", "one": "in process"} == {name: cell.kind for name, cell in found.items()}
    assert {"two": 1.0, "one": 1.0} == {name: cell.points for name, cell in found.items()}


def test_a_test_in_one_process_brings_what_binds_its_names(grader):
    """An earlier test that binds a name runs there too; one that uses its names is judged there as well."""
    of = source(
        SOLUTION,
        graded_cell("first", "def helper(x):\n    return f(x)\nbound = helper(2)"),
        graded_cell("middle", "assert bound == 4\nlast = bound + 1", **ONE),
        graded_cell("end", "assert last == 5"),
    )
    found = grader.grade(of, hand_in(of), {}, 7).cells
    assert {"first": "plain data", "middle": "in process", "end": "in process"} == {
        name: cell.kind for name, cell in found.items()
    }
    assert [1.0, 1.0, 1.0] == [cell.points for cell in found.values()]


def test_an_unknown_process_is_refused():
    """The sentence names the cell and the allowed values."""
    with pytest.raises(InputError, match="cell 't' has the metadata .*'three'.*Use one of"):
        source(SOLUTION, graded_cell("t", "f(1)", autograder={"process": "three"}))


@pytest.mark.parametrize("mode", ["its own setting", "--one-process"])
def test_a_hidden_test_never_reaches_the_outputs_of_the_learners_cells(grader, mode):
    """`print(In)` in a later answer finds no hidden test, because its outputs come from a process without one."""
    spying = "def f(x):\n    print('SPY', repr(In), *globals().get('_ih', []))\n    return 0"
    of = source(
        SOLUTION,
        graded_cell("t", "assert f(1) == 1" + HIDDEN, **(ONE if mode == "its own setting" else {})),
        answer("b", "later = 1"),
        graded_cell("open", "assert later == 1", **(ONE if mode == "its own setting" else {})),
    )
    plan = None if mode == "its own setting" else plan_all_in_process(of)
    print_it = "print('SPY', In)\nlater = 1\nraise ValueError(str(In))"
    graded = grader.grade(of, hand_in(of, {"a": spying, "b": print_it}), {}, 7, plan)
    shown = nbformat.reads(graded.notebook, 4).cells
    learners = [cell.outputs for cell in shown if cell.metadata.nbgrader.solution]
    assert "SPY" in str(learners)
    assert "secret" not in str(learners)
    assert all(graded.cells[name].hidden for name in ("t", "open"))
    [visible] = [cell for cell in shown if cell.metadata.nbgrader.grade_id == "open"]
    assert "secret" not in str(visible.outputs)


def test_a_visible_test_beside_a_hidden_one_shows_nothing_of_it(grader):
    """Its output could be the hidden test's text, so neither its output nor its error is shown."""
    spying = "def f(x):\n    return x * x\ndef g():\n    print(In)\n    raise ValueError(str(In))"
    of = source(SOLUTION, graded_cell("t", "assert f(1) == 1" + HIDDEN, **ONE), graded_cell("open", "g()", **ONE))
    graded = grader.grade(of, hand_in(of, {"a": spying}), {}, 7)
    assert (1.0, 0.0) == (graded.cells["t"].points, graded.cells["open"].points)
    assert "secret" not in outputs(graded)
    assert "did not pass" in outputs(graded)


def test_outputs_are_shown_where_nothing_is_hidden(grader):
    """Without a hidden test there is nothing to protect, and one worker runs everything."""
    of = source(SOLUTION, graded_cell("t", "print('seen', f(2))\nassert f(2) == 4"))
    graded = grader.grade(of, hand_in(of), {}, 7, plan_all_in_process(of))
    assert "seen 4" in outputs(graded)
    assert not graded.cells["t"].hidden


def test_a_test_that_marks_nobody(grader):
    """Right and wrong answers wait for a person, with the reason; the other tests count."""
    of = source(SOLUTION, graded_cell("t", "assert f(2) == 5"), graded_cell("u", "assert f(2) == 4"))
    plan = msgspec.structs.replace(plan_of_source(of), nobody={"t": "the model answer fails it"})
    found = grader.grade(of, hand_in(of), {}, 7, plan).cells
    assert ("for a person", None, "the model answer fails it") == (
        found["t"].status,
        found["t"].points,
        found["t"].reason,
    )
    assert 1.0 == found["u"].points


def test_an_answer_that_needs_a_name_of_the_test_is_for_a_person(grader):
    """One kernel would have given it the test's value, but not that of a later line; outside, it ends with a NameError."""
    of = source(answer("a", "def f(x):\n    return x * x"), graded_cell("t", "v = 3\nassert f(v) == 9\nw = f(2)"))
    found = {
        text: grader.grade(of, hand_in(of, {"a": text}), {}, 7).cells["t"].status
        for text in [f"def f(x):\n    return {x}" for x in ("1", "v * x", "w")] + ["v = 3\ndef f(x):\n    return v * x"]
    }
    assert ["incorrect", "for a person", "incorrect", "correct"] == list(found.values())


WRITING = "def f(rows):\n    total = sum(rows)\n    rows[:] = [0] * len(rows)\n    return 0"


def test_writing_into_the_inputs_earns_nothing(grader):
    """A test that computes its expectation afterwards is not fooled; one that wants the input unchanged still fails."""
    of = source(
        answer("a", "def f(rows):\n    return sum(rows)"),
        graded_cell("fooled", "rows = [1, 2]\nassert f(rows) == sum(rows)"),
        graded_cell("unchanged", "rows = [1, 2]\nf(rows)\nassert rows == [1, 2]"),
    )
    assert {"fooled": 1.0, "unchanged": 1.0} == points(grader.grade(of, hand_in(of), {}, 7))
    assert {"fooled": 0.0, "unchanged": 0.0} == points(grader.grade(of, hand_in(of, {"a": WRITING}), {}, 7))


def test_all_runs_of_a_submission_share_its_time(server, monkeypatch):
    """A second process has only the remaining seconds of the submission."""
    monkeypatch.setattr(server, "limits", replace(LIMITS, submission_seconds=5))
    hurried = grader_of(server)
    of = source(answer("a", "x = 1"), graded_cell("t", "assert x == 1" + HIDDEN.replace("f(7)", "49"), **ONE))
    slow = "import time\ntime.sleep(3)\nx = 1"
    found = hurried.grade(of, hand_in(of, {"a": slow}), {}, 7)
    assert ("not run", 0.0) == (found.cells["t"].status, found.cells["t"].points)
    assert "exceeded its time limit" in found.ended


IMPORTS = "from autograder.check import check, constant, leaf, result\ndef right(x):\n    return x * 2\n"
FOUR, FIVE = 'check("f", like=right, x=constant(4))', 'check("f", like=right, x=constant(5))'
TESTS = {
    "hidden after visible": f"{FOUR}\n### BEGIN HIDDEN TESTS\n{FIVE}\n### END HIDDEN TESTS",
    "a loop over shapes": 'for n in (4, 5):\n    check("f", like=right, x=constant(n))',
    "two lines": f"{FOUR}\n{FIVE}",
    "another kind of input": f"{FOUR}\n{FIVE.replace('constant', 'leaf')}",
}
KINDS = {"a loop over shapes": "plain data"}
WRONG = {
    "for five": "def f(x):\n    return x * (2 if x.shape[0] == 4 else 3)",
    "for four": "def f(x):\n    return x * (2 if x.shape[0] == 5 else 3)",
}


@pytest.mark.parametrize("name", TESTS)
def test_each_check_of_a_cell_counts(server, name):
    """A right answer has full points; an answer that is wrong for one input has none."""
    of = source(answer("a", "def f(x):\n    return x * 2"), graded_cell("t", IMPORTS + TESTS[name], 3))
    grader = grader_of(server)
    found = {
        text: grader.grade(of, hand_in(of, {"a": text}), {}, 7)
        for text in [*WRONG.values(), "def f(x):\n    return x + x"]
    }
    assert [0.0, 0.0, 3.0] == [points(grade)["t"] for grade in found.values()]
    assert {KINDS.get(name, "declarative")} == {grade.cells["t"].kind for grade in found.values()}


MINE = b"def mine():\n    return 4\n"
FOUND = {
    "random": False, "sched": False, "statistics": False, "types": False, "json": False,
    "numpy": True, "pandas": True, "PIL": True, "networkx": True, "utils": True, "numpy_helpers": True, "tests": True, "IPython": False,
}  # fmt: skip
"""Whether a kernel imports the file of this name (`types.py` keeps a kernel from starting)."""


@pytest.mark.parametrize("mode", ["both", "one"])
@pytest.mark.parametrize("name", FOUND)
def test_a_module_beside_the_notebook_is_found_as_by_a_kernel(server, name, mode):
    """The answer and the test import it by themselves, and find the same."""
    has = f"import {name}\nassert hasattr({name}, 'mine') is {FOUND[name]}"
    of = source(
        answer("a", f"def f():\n    import {name}\n    return hasattr({name}, 'mine')"),
        graded_cell("answers", f"assert f() is {FOUND[name]}"),
        graded_cell("tests", f"assert f() in (True, False)\n{has}"),
        files={f"{name}.py": MINE},
    )
    plan = plan_all_in_process(of) if mode == "one" else None
    graded = grader_of(server).grade(of, hand_in(of), {f"{name}.py": MINE}, 7, plan)
    assert points(graded) == {"answers": 1.0, "tests": 1.0}, graded.cells


def test_a_folder_of_data_named_like_a_package_hides_nothing(server):
    """`torch/data.csv` next to the notebook is not a module."""
    of = source(
        answer("a", "def f():\n    import torch\n    return torch.ones(2)"),
        graded_cell("t", "import torch\nassert torch.equal(f(), torch.ones(2))"),
        files={"torch/data.csv": b"1\n"},
    )
    graded = grader_of(server).grade(of, hand_in(of), {"torch/data.csv": b"1\n"}, 7)
    assert points(graded) == {"t": 1.0}, graded.cells


HELPERS = {"code/helper.py": b"from other import *\n\ndef g(x):\n    return x + k\n", "code/other.py": b"k = 1\n"}


@pytest.mark.parametrize("mode", ["both", "one"])
@pytest.mark.parametrize("adding", [
    "import sys\nsys.path.append('./code')",
    "import sys\nsys.path.insert(0, 'code')\nfrom other import *",
    "from sys import path\nfolder = 'code'; path.append(folder)",
    "import os, sys\nsys.path += [os.path.abspath('code')]",
])  # fmt: skip
def test_a_folder_that_a_teachers_cell_adds_to_the_search_path(server, adding, mode):
    """Its modules are found in every submission, and each submission imports them separately, as in its own kernel."""
    of = source(
        teacher(adding),
        answer("a", "def f(x):\n    return x + 1"),
        graded_cell(
            "t",
            "import other\nfrom helper import g\nassert g(3) == f(3) and not hasattr(other, 'seen')\nother.seen = 1",
        ),
        files=HELPERS,
    )
    grader, plan = grader_of(server), plan_all_in_process(of) if mode == "one" else None
    for seed in (7, 8):
        graded = grader.grade(of, hand_in(of), HELPERS, seed, plan)
        assert points(graded) == {"t": 1.0}, graded.cells


CHECK = """
def given(d, w):
    f = d * w
    d[:] = 1
    return f
check("f", like=given, without=("clone",), d=result("n", 3), w=leaf(3))
"""


@pytest.fixture
def graded(server):
    """A function that returns a cell's grade for an answer, with a module next to the notebook."""
    setup = teacher("import torch\nfrom autograder.check import check, leaf, result")
    of = source(setup, answer("a", ANSWER.format(copy="d")), graded_cell("t", CHECK))
    grader = grader_of(server)
    return lambda text, module: grader.grade(of, hand_in(of, {"a": text}), {"helper.py": module}, 5).cells["t"]


@pytest.mark.parametrize("way", HIDDEN_NAMES)
def test_a_forbidden_name_is_refused_where_it_is_hidden(graded, way):
    """The answer computes the right values, gets no points, and the reason states the cause."""
    found = graded(HIDDEN_NAMES[way], HELPER)
    assert not found.points
    assert "this name is not allowed here" in found.reason


@pytest.mark.parametrize("way", ALLOWED)
def test_an_answer_without_the_name_has_its_points(graded, way):
    """A submitted module is allowed as long as it does not use the name either."""
    assert (graded(ALLOWED[way], b"def added(tensor):\n    return tensor + 0\n").status, way) == ("correct", way)
