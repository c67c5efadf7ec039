# ruff: noqa: E501 - an answer with its test is easier to read on few lines
"""AUTOTEST lines become nbgrader's tests, and a right answer may have another form than the model answer."""

import copy
from pathlib import Path

import nbformat
import nbgrader
import pytest
from nbgrader.api import Gradebook
from nbgrader.preprocessors import InstantiateTests
from traitlets.config import Config

from autograder.course.canonical import KERNEL
from autograder.errors import InputError
from autograder.grade.batch.assignment import Options, grade_assignment
from autograder.grade.sandbox.isolation import LEVELS
from autograder.grade.submission.server_client import ServerClient
from autograder.grade.submission.teacher.source_reader import SourceReader
from tests.grade.conftest import LIMITS
from tests.grade.small_course import answer, graded_cell, teacher
from tests.grade.submission.one_kernel import alone, graded, judged

TEMPLATES = Path(nbgrader.__file__).parent / "tests" / "apps" / "files" / "autotests.yml"
LINES = """assert area(1) == 3
### HASHED AUTOTEST area(2); str(area)[:9]
### BEGIN HIDDEN TESTS
### AUTOTEST area(3); [area(1), 'x']; {'a': 1.5}; (1, None); helper.ONE; cube
### END HIDDEN TESTS"""


def source(test=LINES, solution="def area(r):\n    return 3 * r * r\ncube = 2.5"):
    """Return a source notebook with one test."""
    cells = [teacher("import helper"), answer("a", solution), graded_cell("t", test)]
    return nbformat.v4.new_notebook(cells=cells, metadata=KERNEL)


@pytest.fixture
def folder(tmp_path):
    """A source's folder, with nbgrader's own templates and a helper module."""
    (tmp_path / "autotests.yml").write_bytes(TEMPLATES.read_bytes())
    (tmp_path / "helper.py").write_text("ONE = 1")
    return tmp_path


def instantiated(notebook, folder):
    """Return the notebook as this grader makes it."""
    files = {path.name: path.read_bytes() for path in folder.glob("*.py")}
    with SourceReader(LEVELS["bubblewrap"], LIMITS, Config(), folder) as runner:
        return runner.instantiate(copy.deepcopy(notebook), folder, files)


def test_lines_become_the_tests_of_nbgrader(bubblewrap, folder):
    """Word for word: templates by type, hashes with their salts, hidden regions, and values from the model answers."""
    expected, _ = InstantiateTests().preprocess(copy.deepcopy(source()), {"metadata": {"path": str(folder)}})
    found = instantiated(source(), folder)
    assert [cell.source for cell in expected.cells] == [cell.source for cell in found.cells]
    assert "sha1" in found.cells[2].source
    assert "### AUTOTEST" not in found.cells[2].source


def test_a_notebook_without_such_lines_starts_nothing(folder, monkeypatch):
    """And stays as it is."""
    notebook = source("assert area(1) == 3")
    monkeypatch.setattr(ServerClient, "worker", lambda *_: pytest.fail("a server starts"))
    assert notebook == instantiated(notebook, folder)


@pytest.mark.parametrize(("solution", "kept", "said"), [
    ("area = 1 / 0", True, "cell 'a' ended with ZeroDivisionError"),
    ("def area(r):\n    return r", True, "cell 't' ended with AssertionError"),
    ("def area(r):\n    return 3 * r * r", False, "the AUTOTEST lines need autotests.yml"),
])  # fmt: skip
def test_what_cannot_be_made_into_tests_is_one_sentence(bubblewrap, folder, solution, kept, said):
    """An answer that fails, a test of the teacher's own that fails, no templates."""
    if not kept:
        (folder / "autotests.yml").unlink()
    with pytest.raises(InputError, match=said):
        instantiated(source(solution=solution), folder)


def test_a_class_is_graded_by_them(bubblewrap, tmp_path, monkeypatch):
    """Right and wrong submissions; the gradebook has the values of nbgrader itself, and no kernel is started."""
    monkeypatch.setattr("nbgrader.preprocessors.instantiatetests.start_new_kernel", lambda **_: pytest.fail("a kernel"))
    place = tmp_path / "source" / "w1"
    place.mkdir(parents=True)
    (place / "helper.py").write_text("ONE = 1")
    (tmp_path / "autotests.yml").write_bytes(TEMPLATES.read_bytes())
    nbformat.write(source(), place / "w1.ipynb")
    for student, wrong in (("right", "3 * r * r"), ("wrong", "3 * r")):
        handed_in = source(solution=f"def area(r):\n    return {wrong}\ncube = 2.5")
        (tmp_path / "submitted" / student / "w1").mkdir(parents=True)
        nbformat.write(handed_in, tmp_path / "submitted" / student / "w1" / "w1.ipynb")

    rows = grade_assignment("w1", tmp_path, Options(jobs=1))

    assert {"right": 1, "wrong": 0} == {row.student: row.points for row in rows}
    assert not any(row.problems for row in rows)
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as gradebook:
        [stored] = [cell for cell in gradebook.find_notebook("w1", "w1").source_cells if cell.name == "t"]
    (place / "autotests.yml").write_bytes(TEMPLATES.read_bytes())
    assert instantiated(source(), place).cells[2].source == stored.source


STACK = "class Stack:\n    def __init__(self):\n        self.items = []\n    def push(self, x):\n        self.items.append(x)\n    def pop(self):\n        return self.items.pop()\n    def __len__(self):\n        return len(self.items)\n    def is_empty(self):\n        return not self.items"
STACKED = "s = Stack()\ns.push(1)\ns.push(2)\nassert len(s) == 2\nassert s.pop() == 2\nassert not s.is_empty()\ns.pop()\nassert s.is_empty() and len(s) == 0"
PUSH = "    def push(self, x):\n        self.append(x)\n    def is_empty(self):\n        return len(self) == 0"
POINT = "class Point:\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n    def __eq__(self, o):\n        return (self.x, self.y) == (o.x, o.y)\n    def __add__(self, o):\n        return Point(self.x + o.x, self.y + o.y)\n    def __lt__(self, o):\n        return (self.x, self.y) < (o.x, o.y)\n    def __hash__(self):\n        return hash((self.x, self.y))\n    def __repr__(self):\n        return f'Point(x={self.x}, y={self.y})'\n    def norm(self):\n        return (self.x**2 + self.y**2) ** 0.5"
METHODS = "    def __add__(self, o):\n        return Point(self.x + o.x, self.y + o.y)\n    def norm(self):\n        return (self.x**2 + self.y**2) ** 0.5"
POINTED = "p = Point(3, 4)\nassert p.norm() == 5 and p.x == 3\nassert p == Point(3, 4) != Point(4, 3)\nassert p + Point(1, 1) == Point(4, 5)\nassert sorted([Point(2, 1), Point(1, 2)])[0] == Point(1, 2)\nassert repr(p) == 'Point(x=3, y=4)'\nassert len({p, Point(3, 4)}) == 1"
COUNTED = "assert count('aab') == {'a': 2, 'b': 1}\nassert count('ba')['a'] == 1 and 'a' in count('a') and isinstance(count(''), dict)\nassert sorted(count('ba').items()) == [('a', 1), ('b', 1)]"
COUNT = "def count(s):\n    return {c: s.count(c) for c in s}"
NET = "def make():\n    return nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))"
OWN_NET = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a, self.b = nn.Linear(2, 3), nn.Linear(3, 1)\n    def forward(self, x):\n        return self.b(torch.relu(self.a(x)))\ndef make():\n    return Net()"
TRAINED = "m = make()\nassert m(torch.ones(4, 2)).shape == (4, 1) and isinstance(m, nn.Module)\nassert sum(p.numel() for p in m.parameters()) == 13\nm(torch.ones(4, 2)).sum().backward()\nassert all(p.grad is not None for p in m.parameters())\nm.eval()\nassert not m.training and len(m.state_dict()) == 4"

FORMS = {
    "a stack that is a list": (STACK, f"class Stack(list):\n{PUSH}", STACKED),
    "a stack that is a deque": (STACK, f"class Stack(collections.deque):\n{PUSH}", STACKED),
    "a point that is a NamedTuple": (POINT, f"from typing import NamedTuple\nclass Point(NamedTuple):\n    x: float\n    y: float\n{METHODS}", POINTED),
    "a point that extends a named tuple": (POINT, f"class Point(collections.namedtuple('Point', 'x y')):\n{METHODS}", POINTED),
    "a point that is a dataclass": (POINT, f"@dataclasses.dataclass(order=True, frozen=True)\nclass Point:\n    x: float\n    y: float\n{METHODS}", POINTED),
    "counts in a dict of its own": (COUNT, "class Tally(dict):\n    def __missing__(self, k):\n        return 0\ndef count(s):\n    d = Tally()\n    for c in s:\n        d[c] += 1\n    return d", COUNTED),
    "counts in a Counter of its own": (COUNT, "class Tally(collections.Counter):\n    pass\ndef count(s):\n    return Tally(s)", COUNTED),
    "text": ("def slug(s):\n    return s.lower()", "class Slug(str):\n    pass\ndef slug(s):\n    return Slug(s.lower())", "assert slug('Ab') == 'ab' and slug('A').upper() == 'A' and slug('x') in {'x'} and f'{slug('A')}' == 'a' and {'a': 1}[slug('A')] == 1 and slug('A') + 'b' == 'ab'".replace("{slug('A')}", '{slug("A")}')),
    "a whole number": ("def double(n):\n    return 2 * n", "class Even(int):\n    @property\n    def half(self):\n        return self // 2\ndef double(n):\n    return Even(2 * n)", "assert double(3) == 6 and [1, 2, 3][double(1)] == 3 and abs(double(2) - 4) < 1e-9 and double(2) < 5 < double(3) and isinstance(double(1), int)"),
    "a number": ("def f(n):\n    return n / 2", "class Half(float):\n    pass\ndef f(n):\n    return Half(n / 2)", "assert f(3) == 1.5 and np.isclose(f(3), 1.5) and math.isclose(f(3), 1.5) and f'{f(3):.2f}' == '1.50'"),
    "a tuple": ("def f():\n    return 1, 2", "class Pair(tuple):\n    pass\ndef f():\n    return Pair((1, 2))", "a, b = f()\nassert (a, b) == (1, 2) == f() and f() + (3,) == (1, 2, 3) and np.allclose(f(), [1, 2])"),
    "a list": ("def f():\n    return [1, 2]", "class L(list):\n    pass\ndef f():\n    return L([1, 2])", "assert f() == [1, 2] and sorted(f()) == [1, 2] and sum(f()) == 3 and f()[::-1] == [2, 1] and torch.tensor(f()).sum() == 3\nx = f()\nx.append(3)\nassert x == [1, 2, 3]"),
    "a set": ("def f():\n    return {1, 2}", "class S(frozenset):\n    pass\ndef f():\n    return S([1, 2])", "assert f() == {1, 2} and 1 in f() and f() | {3} == {1, 2, 3}"),
    "an array": ("def f():\n    return np.arange(3.0)", "class A(np.ndarray):\n    pass\ndef f():\n    return np.arange(3.0).view(A)", "assert np.allclose(f(), [0, 1, 2]) and f().shape == (3,) and f().sum() == 3 and (f() == np.arange(3.0)).all() and (f() + 1).tolist() == [1, 2, 3]"),
    "a masked array": ("def f():\n    return np.ma.masked_less(np.array([1.0, -2.0, 3.0]), 0)", "def f():\n    a = np.array([1.0, -2.0, 3.0])\n    return np.ma.array(a, mask=a < 0)", "assert f().mean() == 2 and f().count() == 2 and f()[1] is np.ma.masked and f().filled(0).tolist() == [1, 0, 3]"),
    "a matrix": ("def f():\n    return np.array([[1.0, 2.0]])", "def f():\n    return np.matrix([[1.0, 2.0]])", "assert np.allclose(f(), [[1, 2]]) and f().shape == (1, 2)"),
    "Python's own array": ("def f():\n    return [1, 2]", "import array\ndef f():\n    return array.array('i', [1, 2])", "assert list(f()) == [1, 2] and sum(f()) == 3 and f()[0] == 1"),
    "a read-only dict": ("def f():\n    return {'a': 1}", "import types\ndef f():\n    return types.MappingProxyType({'a': 1})", "assert f()['a'] == 1 and dict(f()) == {'a': 1} and 'a' in f()"),
    "a module of one's own": (NET, OWN_NET, TRAINED),
    "a status of a library's": ("def f():\n    return 200", "import http\ndef f():\n    return http.HTTPStatus.OK", "assert f() == 200 and f() + 1 == 201 and 199 < f() < 300 and {200: 'x'}[f()] == 'x' and isinstance(f(), int)"),
    "an IntEnum where a number is wanted": ("number = 3", "class N(enum.IntEnum):\n    A = 3\nnumber = N.A", "assert number == 3 and number * 2 == 6 and [0, 1, 2, 3][number] == 3"),
    "a table with notes": ("import pandas as pd\ndef f():\n    return pd.DataFrame({'a': [1, 2]})", "import pandas as pd\ndef f():\n    d = pd.DataFrame({'a': [1, 2]})\n    d.attrs['from'] = 'a file'\n    d['a'].attrs['unit'] = 'm'\n    return d", "import pandas as pd\npd.testing.assert_frame_equal(f(), pd.DataFrame({'a': [1, 2]}))\npd.testing.assert_series_equal(f()['a'], pd.Series([1, 2], name='a'))"),
    "an IntEnum": ("class Suit(enum.IntEnum):\n    A = 1\n    B = 2", "class Suit(enum.IntEnum):\n    A = 1\n    B = 2", "assert Suit.A == 1 and Suit.A < Suit.B and sorted([Suit.B, Suit.A]) == [1, 2] and isinstance(Suit.A, Suit) and Suit(1) is Suit.A"),
}  # fmt: skip


@pytest.mark.parametrize(("model", "text", "test"), FORMS.values(), ids=FORMS)
def test_a_right_answer_of_another_form_passes(server, model, text, test):
    """It gets full points, or waits for a person if its form cannot leave its process; it is not called wrong."""
    assert ("passed", "") == alone(text, test) == alone(model, test)
    assert graded(server, text, test, model) or judged(server, text, test, model).status == "for a person"


OF_A_LIBRARY = {
    "a mapping": ("import collections\nclass Words(collections.UserDict):\n    pass\ndef f():\n    return Words(a=1)", "assert f() == {'a': 1}"),
    "a symbolic number": ("import sympy\ndef f():\n    return sympy.Integer(3)", "assert abs(f() - 3) < 1e-9"),
    "a list": ("import collections\ndef f():\n    return collections.UserList([1])", "assert f() + [2] == [1, 2]"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "test"), OF_A_LIBRARY.values(), ids=OF_A_LIBRARY)
def test_an_object_of_a_library_is_left_to_a_person(server, text, test):
    """The answer is right, and its object cannot leave its process; it is not called wrong."""
    assert ("passed", "") == alone(text, test)
    assert judged(server, text, test, "def f():\n    return 3").status == "for a person"
