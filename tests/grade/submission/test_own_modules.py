"""A module next to the notebook is imported in the same order as by a kernel, by answers and by tests, in both processes.

Oracle: a kernel (ipykernel 7, IPython 9), measured with files of these names next to a notebook. The notebook's folder
comes after the standard library and before installed packages, so `random.py` is never found, and `networkx.py` always.
"""

import pytest

from autograder.grade.submission.submission_grader import SubmissionGrader
from autograder.grade.submission.teacher.grading_plan import plan_all_in_process
from tests.grade.conftest import LIMITS
from tests.grade.small_course import answer, graded_cell, hand_in, points, source, teacher

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
    graded = SubmissionGrader(server, LIMITS).grade(of, hand_in(of), {f"{name}.py": MINE}, 7, plan)
    assert points(graded) == {"answers": 1.0, "tests": 1.0}, graded.cells


def test_a_folder_of_data_named_like_a_package_hides_nothing(server):
    """`torch/data.csv` next to the notebook is not a module."""
    of = source(
        answer("a", "def f():\n    import torch\n    return torch.ones(2)"),
        graded_cell("t", "import torch\nassert torch.equal(f(), torch.ones(2))"),
        files={"torch/data.csv": b"1\n"},
    )
    graded = SubmissionGrader(server, LIMITS).grade(of, hand_in(of), {"torch/data.csv": b"1\n"}, 7)
    assert points(graded) == {"t": 1.0}, graded.cells


HELPERS = {"code/helper.py": b"from other import *\n\ndef g(x):\n    return x + k\n", "code/other.py": b"k = 1\n"}


@pytest.mark.parametrize("mode", ["both", "one"])
@pytest.mark.parametrize(
    "adding",
    [
        "import sys\nsys.path.append('./code')",
        "import sys\nsys.path.insert(0, 'code')\nfrom other import *",
        "from sys import path\nfolder = 'code'; path.append(folder)",
        "import os, sys\nsys.path += [os.path.abspath('code')]",
    ],
)
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
    grader, plan = SubmissionGrader(server, LIMITS), plan_all_in_process(of) if mode == "one" else None
    for seed in (7, 8):
        graded = grader.grade(of, hand_in(of), HELPERS, seed, plan)
        assert points(graded) == {"t": 1.0}, graded.cells
