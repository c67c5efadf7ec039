"""A test that would run what a learner wrote is not judged beside the tests of others; nothing of it runs there."""

import pytest

from autograder.grade.submission.submission_grader import SubmissionGrader
from tests.grade.conftest import LIMITS
from tests.grade.small_course import answer, graded_cell, hand_in, source


@pytest.fixture(scope="module")
def grader(server):
    """A grader at the strongest level."""
    return SubmissionGrader(server, LIMITS)


MARK = "open({mark!r}, 'w').close()"
PICKLED = """import pickle
class Harm:
    def __reduce__(self):
        return (exec, ({harm!r},))
open('model.pkl', 'wb').write(pickle.dumps(Harm()))
text = {harm!r}
for name in ('learner_module.py', 'model.txt'):
    open(name, 'w').write(text)
def f():
    return 1"""
OPENED = {
    "a pickle": "import pickle\nwith open('model.pkl', 'rb') as file:\n    pickle.load(file)",
    "a pickle of NumPy's": "import numpy as np\nnp.load('model.pkl', allow_pickle=True)",
    "a pickle of PyTorch's": "import torch\ntorch.load('model.pkl', weights_only=False)",
    "text as statements": "exec(text)",
    "text as a value": "eval('[' + repr(1) + ']')\nexec(compile(text, 'given', 'exec'))",
    "text of a file": "exec(open('model.txt').read())",
    "a program": "import subprocess, sys\nsubprocess.run([sys.executable, 'learner_module.py'])",
    "a program of the shell": "import os, sys\nos.system(sys.executable + ' learner_module.py')",
}


IMPORTED = {
    "by its name": "import os, sys\nsys.path.insert(0, os.getcwd())\nimport learner_module",
    "by its path": "import runpy\nrunpy.run_path('learner_module.py')",
}


@pytest.mark.parametrize("test", IMPORTED.values(), ids=list(IMPORTED))
def test_a_module_that_a_learner_wrote_cannot_be_imported(grader, tmp_path, test):
    """It does not even arrive where the tests run."""
    mark = tmp_path / "ran"
    given = PICKLED.format(harm=MARK.format(mark=str(mark)))
    of = source(answer("a", given), graded_cell("t", f"open('learner_module.py')\n{test}\nf()"))
    assert not grader.grade(of, hand_in(of), {}, 7).cells["t"].points
    assert not mark.exists()


@pytest.mark.parametrize("test", OPENED.values(), ids=list(OPENED))
def test_nothing_that_a_learner_wrote_runs_beside_the_tests(grader, tmp_path, test):
    """Whether or not the test swallows the refusal, the mark is not made, and a person decides."""
    mark = tmp_path / "ran"
    given = PICKLED.format(harm=MARK.format(mark=str(mark)))
    swallowed = "try:\n" + "\n".join(f"    {line}" for line in test.splitlines()) + "\nexcept BaseException:\n    pass"
    of = source(answer("a", given), graded_cell("plain", f"{test}\nf()"), graded_cell("swallows", f"{swallowed}\nf()"))
    found = grader.grade(of, hand_in(of), {}, 7).cells
    assert not mark.exists()
    assert {"plain": None, "swallows": None} == {name: cell.points for name, cell in found.items()}
    assert all("could not be judged" in cell.reason for cell in found.values())


def test_what_python_itself_makes_of_text_is_allowed(grader):
    """Named tuples, data classes, literals and the teacher's own modules are no text of a learner's."""
    text = (
        "import ast, collections, copy, dataclasses, helpers\n"
        "Point = collections.namedtuple('Point', 'x y')\n"
        "Pair = dataclasses.make_dataclass('Pair', ['a', 'b'])\n"
        "assert ast.literal_eval('[1, 2]') == [1, 2]\n"
        "assert copy.deepcopy(Point(1, 2)) == Point(f(), 2) and Pair(1, 2) == Pair(f(), helpers.TWO)"
    )
    of = source(answer("a", "def f():\n    return 1"), graded_cell("t", text), files={"helpers.py": b"TWO = 2"})
    assert 1.0 == grader.grade(of, hand_in(of), {}, 7).cells["t"].points
