# ruff: noqa: E501 - an answer with its test is easier to read on few lines
"""What a test does with the learner's objects gives what it would give in the learner's own process; an object that lies gains nothing.

Oracle of the first part: Python itself, which runs answer and test in one namespace.
"""

import builtins
import contextlib
import io
import linecache

import pytest

from autograder.grade.sandbox.warmup import late_modules
from autograder.grade.submission.cell_analysis import used_names
from autograder.grade.submission.stand_ins.source_facts import SourceFacts
from autograder.grade.submission.submission_grader import SubmissionGrader
from autograder.grade.submission.trusted.remote_names import RemoteNames
from autograder.grade.wire import messages
from tests.grade.conftest import LIMITS
from tests.grade.small_course import answer, graded_cell, hand_in, points, source, teacher

SETUP = "import abc, collections, copy, dataclasses, enum, functools, inspect, math, numpy as np, random, torch\nfrom torch import nn\nimport pytest"


def outcome(run):
    """Returns how a test ends: "passed", or the name of its exception, and what it printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            run()
            ended = "passed"
        except BaseException as error:  # noqa: BLE001 - whatever it is, both must end so
            ended = type(error).__name__
            if ended in ("NotPlain", "Unreachable", "LearnerError"):
                ended += f": {error}"
    return ended, said.getvalue()


def alone(answer: str, test: str):
    """Returns how the test ends in the process of the answer, as in stock nbgrader."""

    def run():
        space = {"__name__": "__main__"}
        exec(SETUP, space)
        # As IPython does, so that inspect finds the text.
        linecache.cache["<answer>"] = len(answer), None, answer.splitlines(keepends=True), "<answer>"
        exec(compile(answer, "<answer>", "exec"), space)
        exec(test, space)

    return outcome(run)


@pytest.fixture
def apart(server):
    """A function that returns how a test ends with the answer in the worker; `source` is the model answer, or the same."""

    def ends(answer: str, test: str, source: str | None = None, keep_inputs: bool = False):
        with server.worker({}, late_modules([answer])) as worker:
            for text in (SETUP, answer):
                ran = worker.ask(messages.RunCell(text), messages.CellOutputs)
                assert b'"error"' not in ran.outputs, ran.outputs
            names = RemoteNames(worker, SourceFacts.of([SETUP, source or answer], [source or answer]))
            names.add_cell(answer)
            space = {"__name__": "__main__"}
            exec(SETUP, space)
            names.begin_test(keep_inputs=keep_inputs)

            def run():
                for name in sorted(used_names(test) - space.keys() - set(dir(builtins))):
                    with contextlib.suppress(KeyError):
                        space[name] = names.value(name)
                names.watch(space, test)
                exec(test, space)

            ended = outcome(run)
            names.end_test()
            return ended

    return ends


SHAPES = """
class Shape:
    "A shape."
    sides = 0
    def __init__(self, name="shape"):
        self.name = name
    def area(self):
        raise NotImplementedError("no area")
    @classmethod
    def unit(cls):
        return cls(1, 1)
    @staticmethod
    def count():
        return 7
    def __str__(self):
        return f"<{self.name}>"

class Rectangle(Shape):
    sides = 4
    def __init__(self, width, height):
        super().__init__("rectangle")
        self.width, self.height = width, height
    def area(self):
        return self.width * self.height
    @property
    def is_square(self):
        return self.width == self.height
    def __eq__(self, other):
        return isinstance(other, Rectangle) and (self.width, self.height) == (other.width, other.height)
    def __lt__(self, other):
        return self.area() < other.area()
    def __add__(self, other):
        return Rectangle(self.width + other.width, self.height)
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return (self.width, self.height)[i]
    def __contains__(self, item):
        return item in (self.width, self.height)
    def __call__(self, k):
        return self.width * k
    def __hash__(self):
        return hash((self.width, self.height))
"""

STACK = """
class Empty(Exception):
    def __init__(self, message, size=0):
        super().__init__(message)
        self.size = size

class Full(Empty, ValueError):
    pass

class Stack:
    def __init__(self, items=None):
        self.items = [] if items is None else list(items)
    def push(self, item):
        self.items.append(item)
        return self
    def pop(self):
        if not self.items:
            raise Empty("the stack is empty", size=3)
        return self.items.pop()
    def peek(self):
        return self.items
    def __iter__(self):
        return iter(self.items)
    def __bool__(self):
        return bool(self.items)
    def __enter__(self):
        self.items.append("in")
        return self
    def __exit__(self, *error):
        self.items.append("out")
        return error[0] is KeyError
    def fill(self):
        raise Full("full", 9)
"""

MIXED = """
import collections, dataclasses, enum, functools, itertools
from math import sqrt
from typing import NamedTuple
Point = collections.namedtuple("Point", "x y")
class Place(NamedTuple):
    name: str
    size: int = 3
class Color(enum.Enum):
    RED = 1
    GREEN = 2
@dataclasses.dataclass
class Item:
    name: str
    price: float = 1.5
    tags: list = dataclasses.field(default_factory=list)
    def total(self, n):
        return self.price * n
def adder(n):
    def add(x):
        return x + n
    return add
def naturals():
    n = 0
    while True:
        yield n
        n += 1
def apply(f, *args, **kw):
    return f(*args, **kw)
def integrate(f, a, b, n=100):
    h = (b - a) / n
    return sum(f(a + (i + .5) * h) for i in range(n)) * h
def same(x):
    return x
def pick(items, i):
    return items[i]
def counted(word):
    return collections.Counter(word)
def square(x: int, *, power: int = 2) -> int:
    "The square."
    return x ** power
def sum_of_squares(n):
    return sum(square(i) for i in range(n + 1))
counter = 0
history = [1]
def step():
    global counter
    counter += 1
    history.append(counter)
    return counter
def fill(a, v):
    a[...] = v
def extend(items):
    items.append(len(items))
def shout(text):
    print(text.upper())
def roll():
    import random
    return random.random(), np.random.rand(), torch.rand(1).item()
twice = functools.partial(square, power=2)
@functools.lru_cache
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def strict(x):
    if not isinstance(x, int):
        raise TypeError("x must be an int")
    if x < 0:
        raise ValueError("negative", x)
    return {}[x]
squared = lambda x: x * x
triple = [[0] * 3] * 3
def table():
    return np.array(["a", "bc"]), np.array([1, "x", None], dtype=object), np.float32(2), np.datetime64("2020-01-02"), np.zeros(2, [("a", "i4"), ("b", "U3")])
def poly():
    return np.polynomial.Polynomial([1, 2, 3])
"""

TRAIN = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(2, 1)
        with torch.no_grad():
            self.lin.weight.fill_(0.5)
            self.lin.bias.zero_()
    def forward(self, x):
        return self.lin(x)
def loss_of(model, x, y):
    return ((model(x) - y) ** 2).mean()
def train(model, steps):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        opt.zero_grad()
        loss_of(model, torch.ones(3, 2), torch.ones(3, 1) * 3).backward()
        opt.step()
    return model
"""

WARNING = """
import warnings
class Careless(UserWarning):
    pass
def old(x):
    warnings.warn("old is deprecated", DeprecationWarning, stacklevel=2)
    return x
def careless():
    warnings.warn("mind the gap", Careless)
    return 1
def log(x):
    return np.log(x)
def quiet_log(x):
    with np.errstate(all="ignore"):
        return np.log(x)
def hushed():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("nobody hears this")
    return 2
def fresh():
    return torch.ones(2)
def tracks():
    return (torch.ones(2, requires_grad=True) * 2).requires_grad
def failing():
    warnings.warn("first a warning")
    raise KeyError("then an error")
"""

CASES = [
    (SHAPES, "r = Rectangle(2, 3)\nassert r.area() == 6 and r.width == 2 and r.name == 'rectangle'"),
    (SHAPES, "r = Rectangle(2, 3)\nassert isinstance(r, Rectangle) and isinstance(r, Shape) and not isinstance(r, int)"),
    (SHAPES, "assert issubclass(Rectangle, Shape) and not issubclass(Shape, Rectangle) and type(Rectangle(1, 2)) is Rectangle"),
    (SHAPES, "assert Rectangle.__name__ == 'Rectangle' and type(Rectangle(1, 1)).__name__ == 'Rectangle' and Rectangle(1, 1).__class__ is Rectangle"),
    (SHAPES, "assert Shape.__doc__ == 'A shape.' and Rectangle.sides == 4 and Rectangle(1, 2).sides == 4"),
    (SHAPES, "assert hasattr(Rectangle, 'area') and not hasattr(Rectangle, 'volume') and hasattr(Rectangle(1, 2), 'width')"),
    (SHAPES, "assert Rectangle.unit().area() == 1 and Rectangle.count() == 7 and Rectangle(1, 1).count() == 7"),
    (SHAPES, "r = Rectangle(2, 3)\nr.width = 5\nassert r.area() == 15\ndel r.width\nassert not hasattr(r, 'width')"),
    (SHAPES, "assert Rectangle(2, 2).is_square and not Rectangle(2, 3).is_square"),
    (SHAPES, "assert Rectangle(1, 2) == Rectangle(1, 2) and Rectangle(1, 2) != Rectangle(2, 2) and Rectangle(1, 2) != 7"),
    (SHAPES, "assert Shape() != Shape() and not Shape() == 3"),
    (SHAPES, "assert sorted([Rectangle(3, 3), Rectangle(1, 1)])[0].width == 1 and Rectangle(1, 1) < Rectangle(2, 2)"),
    (SHAPES, "assert (Rectangle(1, 2) + Rectangle(3, 2)).width == 4\nRectangle(1, 2) + 3"),
    (SHAPES, "Rectangle(1, 2) * 3"),
    (SHAPES, "r = Rectangle(5, 6)\nassert len(r) == 4 and r[0] == 5 and 6 in r and 9 not in r and r(3) == 15 and list(r[i] for i in range(2)) == [5, 6]\nr[2]"),
    (SHAPES, "assert str(Shape()) == '<shape>' and f'{Shape()}' == '<shape>' and '%s' % Shape() == '<shape>'\nassert 'Rectangle' in repr(Rectangle(1, 2))"),
    (SHAPES, "assert len({Rectangle(1, 2), Rectangle(1, 2)}) == 1 and {Rectangle(1, 2): 'a'}[Rectangle(1, 2)] == 'a'"),
    (SHAPES, "with pytest.raises(NotImplementedError, match='no area'):\n    Shape().area()"),
    (SHAPES, "Shape().nothing"),
    (SHAPES, "Rectangle(1)"),
    (SHAPES, "r = Rectangle(1, 2)\nassert vars(r) == {'name': 'rectangle', 'width': 1, 'height': 2} and 'area' in dir(r)\nr.__dict__['width'] = 9\nassert r.area() == 18"),
    (SHAPES, "assert Rectangle.area(Rectangle(3, 4)) == 12 and Shape.__init__ is not None and callable(Rectangle) and callable(Rectangle(1, 2))"),
    (SHAPES, "r = Rectangle(1, 2)\nc = copy.copy(r)\nc.width = 8\nassert r.width == 1 and copy.deepcopy([r])[0] == r"),
    (SHAPES, "assert list(inspect.signature(Rectangle).parameters) == ['width', 'height'] and list(inspect.signature(Rectangle.area).parameters) == ['self']"),
    (SHAPES, "assert 'self.width * self.height' in inspect.getsource(Rectangle.area) and inspect.isclass(Rectangle)"),
    (SHAPES, "rs = [Rectangle(i, 1) for i in range(3)]\nassert max(rs).width == 2 and rs[1] in rs and rs.index(rs[2]) == 2"),
    (SHAPES, "class Sub(Rectangle):\n    pass"),
    (STACK, "s = Stack()\nassert s.push(1) is s and s.items == [1] and s.items is s.items and s.pop() == 1 and not s"),
    (STACK, "s = Stack([1, 2])\ns.items.append(3)\nassert s.pop() == 3 and list(s) == [1, 2] and [x for x in s] == [1, 2] and sum(s) == 3 and 2 in s"),
    (STACK, "s = Stack()\nview = s.peek()\ns.push(4)\nassert view == [4]\nview.append(5)\nassert s.pop() == 5"),
    (STACK, "data = [1]\ns = Stack(data)\ndata.append(2)\nassert s.items == [1]"),
    (STACK, "with pytest.raises(Empty, match='empty') as caught:\n    Stack().pop()\nassert caught.value.size == 3 and caught.value.args == ('the stack is empty',) and str(caught.value) == 'the stack is empty'"),
    (STACK, "try:\n    Stack().pop()\nexcept ValueError:\n    print('no')\nexcept Empty as e:\n    print('yes', type(e).__name__, isinstance(e, Exception), issubclass(Full, Empty))"),
    (STACK, "try:\n    Stack().fill()\nexcept ValueError as e:\n    assert isinstance(e, Full) and isinstance(e, Empty)"),
    (STACK, "raise Empty('mine')"),
    (STACK, "Stack().pop()"),
    (STACK, "with Stack() as s:\n    s.push(2)\nassert s.items == ['in', 2, 'out']"),
    (STACK, "with Stack() as s:\n    {}['missing']\nassert s.items == ['in', 'out']"),
    (STACK, "with Stack() as s:\n    1 / 0"),
    (STACK, "def f():\n    raise Empty('x')\nwith pytest.raises(Empty):\n    f()"),
    (MIXED, "p = Point(1, 2)\nassert p.x == 1 and p == (1, 2) and isinstance(p, Point) and isinstance(p, tuple) and p._replace(x=5) == Point(5, 2) and Place('a').size == 3"),
    (MIXED, "assert same(Point(1, 2)) == Point(1, 2) and type(same(Point(1, 2))) is Point"),
    (MIXED, "assert Color.RED.value == 1 and Color(2) is Color.GREEN and Color['RED'] is Color.RED and Color.RED == Color.RED and [c.name for c in Color] == ['RED', 'GREEN'] and len(Color) == 2 and isinstance(Color.RED, Color)"),
    (MIXED, "i = Item('a', 2.0)\nassert i == Item('a', 2.0) and i.total(3) == 6 and repr(i) == \"Item(name='a', price=2.0, tags=[])\" and i != Item('b')"),
    (MIXED, "assert dataclasses.is_dataclass(Item)"),
    (MIXED, "add = adder(3)\nassert add(4) == 7 and callable(add) and add.__name__ == 'add'"),
    (MIXED, "g = naturals()\nassert [next(g) for _ in range(3)] == [0, 1, 2] and inspect.isgenerator(g)\nfor n in naturals():\n    if n > 4:\n        break\nassert n == 5"),
    (MIXED, "assert apply(lambda x: x + 1, 2) == 3 and apply(max, [1, 5]) == 5 and apply(math.sqrt, 9) == 3 and apply(np.sin, 0.0) == 0"),
    (MIXED, "calls = []\nassert abs(integrate(lambda x: calls.append(x) or x ** 2, 0, 1) - 1 / 3) < 1e-3 and len(calls) == 100"),
    (MIXED, "def f(x):\n    raise KeyError(x)\nwith pytest.raises(KeyError, match='7'):\n    apply(f, 7)"),
    (MIXED, "seen = []\ndef f(x, k=0):\n    seen.append((x, k))\n    return square(x) + k\nassert apply(f, 3, k=2) == 11 and seen == [(3, 2)]"),
    (MIXED, "def f(items):\n    items.append(9)\n    return items\nl = [1]\nassert apply(f, l) is l and l == [1, 9]"),
    (MIXED, "l = [1, [2]]\nassert same(l) is l and pick(l, 1) is l[1] and same(None) is None\na = np.ones(3)\nassert same(a) is a"),
    (MIXED, "assert triple[0] is triple[1]\ntriple[0][1] = 5\nassert triple[2][1] == 5"),
    (MIXED, "assert counted('aab') == {'a': 2, 'b': 1} and counted('aab').most_common(1) == [('a', 2)] and type(counted('')) is collections.Counter"),
    (MIXED, "assert list(inspect.signature(square).parameters) == ['x', 'power'] and inspect.signature(square).parameters['power'].default == 2"),
    (MIXED, "assert square.__doc__ == 'The square.' and square.__name__ == 'square' and square.__annotations__ == {'x': int, 'power': int, 'return': int} and square.__kwdefaults__ == {'power': 2}"),
    (MIXED, "src = inspect.getsource(square)\nassert 'x ** power' in src and 'for' not in src and inspect.isfunction(square)\nassert 'pow' not in square.__code__.co_names and square.__code__.co_argcount == 1 and type(square).__name__ == 'function'"),
    (MIXED, "assert inspect.getsource(adder(1)).strip().startswith('def add(x)') and 'lambda' in inspect.getsource(squared)"),
    (MIXED, "import types\nassert isinstance(square, types.FunctionType) and callable(squared) and squared(3) == 9"),
    (MIXED, "orig = square\ndel square\ntry:\n    sum_of_squares(2)\nexcept NameError:\n    pass\nelse:\n    raise AssertionError('does not use square')\nfinally:\n    square = orig\nassert sum_of_squares(2) == 5"),
    (MIXED, "calls = []\ndef square(x):\n    calls.append(x)\n    return 1\nassert sum_of_squares(3) == 4 and calls == [0, 1, 2, 3]"),
    (MIXED, "assert step() == 1 and counter == 1 and history == [1, 1]\ncounter = 10\nassert step() == 11 and history == [1, 1, 11]"),
    (MIXED, "history.append(99)\nstep()\nassert history == [1, 99, 1]"),
    (MIXED, "a = np.zeros(3)\nfill(a, 4)\nassert a.tolist() == [4, 4, 4]\nt = torch.zeros(2)\nfill(t, 3)\nassert t.tolist() == [3, 3]\nl = [5]\nextend(l)\nassert l == [5, 1]"),
    (MIXED, "said = io.StringIO()\nimport io, contextlib\nsaid = io.StringIO()\nwith contextlib.redirect_stdout(said):\n    shout('hi')\nassert said.getvalue() == 'HI\\n'\nshout('again')"),
    (MIXED, "random.seed(1); np.random.seed(2); torch.manual_seed(3)\nfirst = roll()\nrandom.seed(1); np.random.seed(2); torch.manual_seed(3)\nassert first == roll() == (random.Random(1).random(), np.random.RandomState(2).rand(), torch.rand(1, generator=torch.Generator().manual_seed(3)).item())"),
    (MIXED, "assert twice(3) == 9 and twice.keywords == {'power': 2} and fib(20) == 6765 and fib.cache_info().currsize > 10 and fib.__wrapped__(1) == 1"),
    (MIXED, "with pytest.raises(TypeError, match='must be an int'):\n    strict('a')\nwith pytest.raises(ValueError) as e:\n    strict(-1)\nassert e.value.args == ('negative', -1)\nwith pytest.raises(KeyError):\n    strict(1)"),
    (MIXED, "s, o, f, d, r = table()\nassert s.tolist() == ['a', 'bc'] and s.dtype == np.array(['a', 'bc']).dtype and o.tolist() == [1, 'x', None] and type(f) is np.float32 and str(d) == '2020-01-02' and r.dtype.names == ('a', 'b')"),
    (MIXED, "assert poly()(2) == 17 and poly() == np.polynomial.Polynomial([1, 2, 3]) and isinstance(poly(), np.polynomial.Polynomial)"),
    (MIXED, "assert sqrt(16) == 4 and same(int) is int and same(np.ndarray) is np.ndarray and same(...) is ...\nassert type(same(np.int64(3))) is np.int64"),
    (MIXED, "from unittest import mock\nf = mock.Mock(return_value=5)\nassert apply(f, 1, k=2) == 5\nf.assert_called_once_with(1, k=2)"),
    (MIXED, "from unittest import mock\nwith mock.patch.object(Item, 'total', lambda self, n: 77):\n    assert Item('a').total(1) == 77\nassert Item('a', 1.0).total(1) == 1"),
    (MIXED, "assert list(map(square, [1, 2])) == [1, 4] and sorted([3, 1], key=squared) == [1, 3] and functools.reduce(lambda a, b: a + square(b), [1, 2], 0) == 5"),
    (TRAIN, "m = Net()\nassert isinstance(m, nn.Module) and issubclass(Net, nn.Module) and isinstance(m.lin, nn.Linear) and m.lin.in_features == 2 and m.training"),
    (TRAIN, "m = Net()\nout = m(torch.ones(3, 2))\nassert out.shape == (3, 1) and torch.equal(out, torch.ones(3, 1)) and out.requires_grad"),
    (TRAIN, "m = Net()\nassert sum(p.numel() for p in m.parameters()) == 3 and all(p.requires_grad for p in m.parameters()) and len(list(m.parameters())) == 2 and [n for n, _ in m.named_parameters()] == ['lin.weight', 'lin.bias']"),
    (TRAIN, "m = Net()\nloss = loss_of(m, torch.ones(3, 2), torch.zeros(3, 1))\nassert m.lin.weight.grad is None\nloss.backward()\nassert m.lin.weight.grad.tolist() == [[2, 2]] and all(p.grad is not None for p in m.parameters())"),
    (TRAIN, "m = Net()\nx = torch.ones(3, 2, requires_grad=True)\nm(x).sum().backward()\nassert x.grad.tolist() == [[.5, .5]] * 3 and m.lin.bias.grad.item() == 3"),
    (TRAIN, "m = Net()\nopt = torch.optim.SGD(m.parameters(), lr=0.1)\nfor _ in range(3):\n    opt.zero_grad()\n    loss = ((m(torch.ones(3, 2)) - 3) ** 2).mean()\n    loss.backward()\n    opt.step()\nassert loss.item() < 4 and abs(m.lin.weight[0, 0].item() - 0.5) > 0.1"),
    (TRAIN, "m = train(Net(), 20)\nassert abs(m(torch.ones(1, 2)).item() - 3) < .1 and list(m.state_dict()) == ['lin.weight', 'lin.bias']\nm.eval()\nassert not m.training"),
    (TRAIN, "m = Net()\nbefore = [p.clone() for p in m.parameters()]\ntrain(m, 1)\nassert not all(torch.equal(a, b) for a, b in zip(before, m.parameters()))"),
    ("import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\ndef draw():\n    fig, ax = plt.subplots()\n    ax.plot([1, 2, 3], [4, 5, 6], label='a')\n    ax.set_title('T'); ax.set_xlabel('x')\n    ax.legend()\n    return fig, ax\nfig, ax = draw()",
     "assert ax.get_title() == 'T' and ax.lines[0].get_xdata().tolist() == [1, 2, 3] and len(ax.lines) == 1 and len(fig.axes) == 1 and fig.axes[0] is ax and ax.get_legend().get_texts()[0].get_text() == 'a'"),
]  # fmt: skip

LIARS = """
class Any:
    def __init__(self, value=None):
        self.value = value
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    def __gt__(self, other): return True
    def __contains__(self, item): return True
    def __sub__(self, other): return 0
    def __rsub__(self, other): return 0
    def __abs__(self): return 0
    def __mul__(self, other): return self
    def __hash__(self): return hash(7)
    def __array__(self, *a, **k): return np.array([1.0, 2.0])
    def __array_ufunc__(self, *a, **k): return True
    def __array_function__(self, *a, **k): return True
    @classmethod
    def __torch_function__(cls, *a, **k): return True
    def __instancecheck__(self, other): return True
    def __exit__(self, *error): return True
    def __enter__(self): return self
    def __len__(self): return 2
    def __getitem__(self, i): return [9.0, 9.0][i]
    def equals(self, other): return True
    def allclose(self, other): return True
class Meta(type):
    def __eq__(cls, other): return True
    def __hash__(cls): return 1
    def __instancecheck__(cls, other): return True
class Rectangle(metaclass=Meta):
    pass
class List(list):
    def __eq__(self, other): return True
class Number(float):
    def __eq__(self, other): return True
    def __sub__(self, other): return 0.0
class Zero(int):
    def __eq__(self, other): return True
class Differs(Any):
    def __sub__(self, other): return Zero()
    def __rsub__(self, other): return Zero()
def differs(*_):
    return Differs()
class Text(str):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return hash("b")
    def startswith(self, other): return True
def text(*_):
    return Text("a")
class Pairs(dict):
    def __eq__(self, other): return True
    def get(self, *_): return 4
    def __contains__(self, _): return True
def pairs(*_):
    return Pairs()
class Row(np.ndarray):
    def __eq__(self, other): return np.array(True)
    def all(self): return True
    def __array_function__(self, *a, **k): return True
    def __array_ufunc__(self, *a, **k): return np.array([0.0])
def row(*_):
    return np.zeros(2).view(Row)
def anything(*_):
    return Any()
class DataFrame(Any):
    pass
DataFrame.__module__ = "pandas"
def framed(*_):
    import sys, types
    sys.modules["pandas"] = types.SimpleNamespace(DataFrame=DataFrame)
    return DataFrame()
expected = 0
def told(*_):
    return globals().get("expected")
def rebinds(*_):
    global expected
    expected = 1
    return 1
def things(*_):
    return [Any(), Any()]
def listed(*_):
    return List()
def number(*_):
    return Number(3)
def stops(*_):
    raise StopIteration
def leaves(*_):
    raise SystemExit(0)
def skips(*_):
    import unittest
    raise unittest.SkipTest("skipped")
class Quits(BaseException):
    pass
def quits(*_):
    raise Quits
def once(*_):
    raise GeneratorExit
def zeros(x):
    x[...] = 0
    return x
def run(f):
    try:
        f()
    except BaseException:
        pass
compute = eval
source = "__import__('os').getpid()"
sub = torch.ones(2).as_subclass(type("Sub", (torch.Tensor,), {"__torch_function__": classmethod(lambda *a, **k: True)}))
"""
SOURCE_OF_LIARS = (
    "class Rectangle:\n    def area(self): return 1\ndef anything(x): return 3\ndef zeros(x): return x * 0\n"
    "class Differs:\n    def __sub__(self, other): return 1\n    def __rsub__(self, other): return 1"
)
LIES = [
    "assert anything(2) == 4",
    "assert 4 == anything(2)",
    "assert not anything(2) != 4",
    "assert anything(2).equals(4)",
    "assert anything(2).allclose(torch.ones(2))",
    "assert getattr(anything(2), 'equals')(4)",
    "assert framed(2).equals(4)",
    "expected = 42\nassert told(1) == expected",
    "expected = 42\nassert rebinds(1) == expected",
    "assert 4 in anything(2)",
    "assert abs(anything(2) - 4) < 1e-6",
    "assert abs(4 - anything(2)) < 1e-6",
    "assert anything(2) * 2 == 8",
    "assert things(2) == [4, 5]",
    "assert 4 in things(2)",
    "assert {4: 1}.get(anything(2))",
    "assert np.allclose(anything(2), [1.0, 2.0])",
    "assert np.array_equal(anything(2), [1.0, 2.0])",
    "np.testing.assert_allclose(anything(2), [1.0, 2.0])",
    "np.testing.assert_equal(anything(2), 4)",
    "assert torch.equal(anything(2), torch.ones(2))",
    "assert torch.allclose(torch.ones(2), anything(2))",
    "torch.testing.assert_close(anything(2), torch.ones(2))",
    "assert anything(2) == pytest.approx(4)",
    "assert math.isclose(anything(2), 4)",
    "with anything(2):\n    assert 1 == 2",
    "with anything(2):\n    number(2).imag.missing",
    "assert type(anything(2)) == int",
    "assert isinstance(3, Rectangle)",
    "assert Rectangle == int",
    "assert listed(2) == [4]",
    "assert number(2) == 4",
    "assert abs(differs(2) - 4) < 1e-6",
    "assert abs(4 - differs(2)) < 1e-6",
    "assert 4 - differs(2) == 0",
    "assert text(2) == 'b'",
    "assert not text(2) != 'b'",
    "assert text(2) in {'b'}",
    "assert 'b' == text(2)",
    "assert text(2).startswith('b')",
    "assert pairs(2) == {1: 4}",
    "assert pairs(2).get(1) == 4",
    "assert 1 in pairs(2)",
    "assert np.allclose(row(2), np.ones(2))",
    "assert (row(2) == np.ones(2)).all()",
    "assert np.abs(row(2) - np.ones(2)).max() < 1e-6",
    "np.testing.assert_array_equal(row(2), np.ones(2))",
    "assert abs(number(2) - 4) < 1e-6",
    "for found, expected in zip(map(stops, [1, 2]), [1, 2]):\n    assert found == expected",
    "assert all(stops(n) for n in [1, 2])",
    "found = [stops(n) for n in [1]]",
    "leaves()",
    "skips()",
    "quits()",
    "once()",
    "run(lambda: [][1])\nassert anything(1) == 3",
    "assert compute(source) == __import__('os').getpid()",
    "assert torch.equal(sub, torch.zeros(2))",
    "assert np.sum(anything(2)) == 3.0",
    "assert sorted([anything(1), 3]) == [3, 3]",
    (WARNING, "with pytest.warns(DeprecationWarning, match='is deprecated'):\n    assert old(3) == 3"),
    (WARNING, "with pytest.warns(UserWarning, match='gap'):\n    careless()"),
    (WARNING, "with pytest.warns(DeprecationWarning):\n    careless()"),
    (
        WARNING,
        "import warnings\nwith warnings.catch_warnings(record=True) as kept:\n    warnings.simplefilter('always')\n    old(1), old(2), hushed()\nassert [str(one.message) for one in kept] == ['old is deprecated'] * 2 and kept[0].category is DeprecationWarning",
    ),
    (
        WARNING,
        "import warnings\nwith warnings.catch_warnings():\n    warnings.simplefilter('error')\n    assert quiet_log(np.zeros(1))[0] == -np.inf and hushed() == 2",
    ),
    (
        WARNING,
        "import warnings\nwith warnings.catch_warnings():\n    warnings.simplefilter('error')\n    log(np.zeros(1))",
    ),
    (
        WARNING,
        "import warnings\nwith warnings.catch_warnings():\n    warnings.simplefilter('error', DeprecationWarning)\n    careless()\n    old(1)",
    ),
    (
        WARNING,
        "import warnings\nwith warnings.catch_warnings(record=True) as kept, pytest.raises(KeyError):\n    warnings.simplefilter('always')\n    failing()\nassert len(kept) == 1",
    ),
    (WARNING, "import warnings\nwith warnings.catch_warnings():\n    warnings.simplefilter('error')\n    failing()"),
    (
        WARNING,
        "with np.errstate(divide='raise'):\n    assert quiet_log(np.zeros(1))[0] == -np.inf\n    log(np.zeros(1))",
    ),
    (
        WARNING,
        "with np.errstate(all='ignore'):\n    log(np.zeros(1))\nassert tracks()\nwith torch.no_grad():\n    assert not tracks()\nassert tracks()",
    ),
    (
        WARNING,
        "torch.set_default_dtype(torch.float64)\ntry:\n    assert fresh().dtype == torch.float64\nfinally:\n    torch.set_default_dtype(torch.float32)\nassert fresh().dtype == torch.float32",
    ),
]


@pytest.mark.parametrize("test", LIES)
def test_an_object_that_lies_gains_nothing(apart, test):
    """It says that it equals everything, or ends the test early: without the source's leave it is not even asked."""
    ended, _ = apart(LIARS, test, source=SOURCE_OF_LIARS)
    assert "passed" != ended
    assert ended not in ("SystemExit", "GeneratorExit", "SkipTest", "Quits")


def test_zeros_written_into_the_inputs_fool_no_test(apart):
    """With the inputs kept, what the test computes from them afterwards is right; without, the call's writes are seen."""
    test = "x = np.ones(3)\nfound = zeros(x)\nassert found.tolist() == (x * 1).tolist()"
    assert "passed" == apart(LIARS, test)[0]
    assert (
        "AssertionError"
        == apart(
            LIARS, test.replace("assert found.tolist()", "found = found.tolist()\nassert found"), keep_inputs=True
        )[0]
    )


def test_a_test_whose_values_cannot_cross_says_so(server):
    """Even where the test itself swallows the exception, there is a reason to judge it in one process."""
    with server.worker({}) as worker:
        worker.ask(messages.RunCell("def f():\n    a = []\n    a.append(a)\n    return a"), messages.CellOutputs)
        names = RemoteNames(worker)
        names.begin_test()
        with contextlib.suppress(Exception):
            names.value("f")()
        assert "holds itself" in names.refusal


@pytest.mark.parametrize(("answer", "test"), CASES, ids=[test.replace("\n", " ")[:60] for _, test in CASES])
def test_a_test_ends_as_in_one_process(apart, answer, test):
    """Passed, or the same class of exception; and the same text printed."""
    expected = alone(answer, test)
    found = apart(answer, test)
    if "class Sub(" in test:
        assert "cannot extend a class" in found[0]
        return
    assert expected == found


def test_calls_inside_each_other_keep_what_both_sides_know(server):
    """A test's recursive function, decorated by the learner, calls itself through the decorator: thousands of values cross."""
    permute = (
        "def permute(*a):\n    if not a:\n        return [()]\n"
        "    return [(a[i], *p) for i in range(len(a)) for p in permute(*a[:i], *a[i + 1:])]"
    )
    decorate = "def unique(f):\n    def wrapper(*a):\n        return f(*sorted(set(a)))\n    return wrapper"
    asks = "import itertools\npermute = unique(permute)\nassert permute(3, 1, 2, 4, 4) == list(itertools.permutations([1, 2, 3, 4]))"
    known = source(teacher(permute), answer("d", decorate), graded_cell("test", asks))
    grade = SubmissionGrader(server, LIMITS).grade(known, hand_in(known, {"d": decorate}), {}, 5)
    assert {"test": 1.0} == points(grade), grade.cells


@pytest.mark.parametrize(
    "raises",
    [
        "class Halt(BaseException):\n    pass\ndef f():\n    raise Halt('no')",
        "def f():\n    pytest.fail('no')",
        "class Odd(Exception):\n    def __str__(self):\n        raise SystemExit(0)\ndef f():\n    raise Odd()",
    ],
    ids=["an exception of its own kind", "a test's failure", "an exception that cannot be shown"],
)
def test_whatever_an_answer_raises_the_others_are_graded(server, raises):
    """It ends the call, not the program: in one kernel the next cells run, too."""
    known = source(
        teacher(SETUP),
        answer("f", "def f():\n    return 1"),
        graded_cell("test_f", "assert f() == 1"),
        answer("g", "def g():\n    return 2"),
        graded_cell("test_g", "assert g() == 2"),
    )
    data = hand_in(known, {"f": raises, "g": "def g():\n    return 2"})
    grade = SubmissionGrader(server, LIMITS).grade(known, data, {}, 5)
    assert {"test_f": 0.0, "test_g": 1.0} == points(grade), grade.cells


def others_points(server, answered, test):
    """Returns the points of a test of `f`, as answered, and of the right answer beside it; somebody else is graded before."""
    known = source(
        teacher("import torch\nimport numpy as np\nfrom autograder.check import check, leaf"),
        answer("f", "v = 1\ndef f(x):\n    return x"),
        graded_cell("test_f", test),
        answer("g", "def g():\n    return 2"),
        graded_cell("test_g", "assert g() == 2"),
    )
    grader, right = SubmissionGrader(server, LIMITS), "def g():\n    return 2"
    grader.grade(known, hand_in(known, {"f": "v = 1\ndef f(x):\n    return x", "g": right}), {}, 5)
    return points(grader.grade(known, hand_in(known, {"f": answered, "g": right}), {}, 5))


CHECKED = "check('f', like=lambda x: x * 1, x=leaf(3))"


@pytest.mark.parametrize("test", [CHECKED, "assert f(1) == 1"], ids=["asked by a check", "asked by a test"])
@pytest.mark.parametrize(
    "raises",
    [
        "raise BaseExceptionGroup('no', [SystemExit(0), GeneratorExit()])",
        "raise type('Halt', (BaseException,), {})('no')",
        "raise OSError(2, '\\ud800')",
        "raise ValueError('\\udcff.csv')",
    ],
    ids=["a group", "a kind of its own", "a reason that is no text", "the name of a file that is not UTF-8"],
)
def test_whatever_a_call_raises_the_others_are_graded(server, test, raises):
    """Also what is no `Exception`, and words that cannot be sent."""
    assert {"test_f": 0.0, "test_g": 1.0} == others_points(server, f"def f(x):\n    {raises}", test)


@pytest.mark.parametrize(
    "value",
    [
        "torch.zeros(1).expand(10**12)",
        "np.broadcast_to(np.float64(0), (10**6, 10**6))",
        "torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])",
        "type('Liar', (), {'__class__': property(lambda self: AssertionError), '__getattr__': lambda self, name: self})()",
    ],
    ids=["an expanded tensor", "a broadcast array", "a nested tensor", "what claims to be an exception"],
)
@pytest.mark.parametrize("test", [CHECKED, "assert f(1) == 1", "assert v == 1"], ids=["check", "call", "name"])
def test_a_value_that_cannot_be_read_costs_no_other_points(server, test, value):
    """It has none itself, or waits for a person; the grader does not fail for it."""
    found = others_points(server, f"v = {value}\ndef f(x):\n    return v", test)
    assert not found["test_f"]
    assert 1.0 == found["test_g"]


TAKEN_AWAY = """
kept = helper
del helper
try:
    f(1)
    raise AssertionError("f does not use helper")
except NameError:
    pass
finally:
    helper = kept
assert f(1) == 2
"""


@pytest.mark.parametrize(
    ("test", "deserved"),
    [(TAKEN_AWAY, 1.0), ("helper = lambda x: 7\nassert f(1) == 7", 0.0)],
    ids=["taken away and put back", "replaced for good"],
)
def test_a_helper_that_a_test_replaces_is_the_learners_again_in_later_cells(server, test, deserved):
    """Put back, it is the cell's own function; where the test leaves another one there, only what calls it fails."""
    known = source(
        teacher("def helper(x):\n    return x + 1"),
        answer("f", "def f(x):\n    return helper(x)"),
        graded_cell("test_f", test),
        answer("g", "g = helper(1)"),
        graded_cell("test_g", "assert g == 2"),
        answer("h", "h = 3"),
        graded_cell("test_h", "assert h == 3"),
    )
    models = {"f": "def f(x):\n    return helper(x)", "g": "g = helper(1)", "h": "h = 3"}
    grade = SubmissionGrader(server, LIMITS).grade(known, hand_in(known, models), {}, 5)
    assert {"test_f": 1.0, "test_g": deserved, "test_h": 1.0} == points(grade), grade.cells
    assert not grade.ended


PLAIN = (
    "class Node:\n    def __init__(self, value):\n        self.value = value\ndef make(value):\n    return Node(value)"
)
COMPARED = """class Node:
    def __init__(self, value):
        self.value = value
    def __eq__(self, other):
        return isinstance(other, Node) and self.value == other.value
    def __hash__(self):
        return hash(self.value)
    def __lt__(self, other):
        return self.value < other.value
    def __bool__(self):
        return self.value > 0
def make(value):
    return Node(value)"""


@pytest.mark.parametrize(
    "test",
    [
        pytest.param("assert make(1) != make(2) and not make(1) == make(2)", id="different objects"),
        pytest.param(
            "node = make(1)\nassert node == node and not node != node and node in [node]", id="the same object"
        ),
        pytest.param("assert make(1) != None and not make(1) == None", id="None"),
        pytest.param("assert len({make(1), make(2), make(3)}) == 3", id="a set of different ones"),
        pytest.param("node = make(1)\nassert {node: 5}[node] == 5", id="a key"),
        pytest.param("assert make(1) and not make(0)", id="bool"),
        pytest.param("import pytest\nwith pytest.raises(TypeError):\n    make(1) > 3", id="an order with a number"),
    ],
)
def test_comparisons_of_the_answers_own_count_where_they_say_what_python_says(apart, test):
    """The model answer's class has no comparisons, the learner's has: what both would say is no reason to doubt."""
    assert apart(COMPARED, test, source=PLAIN) == alone(COMPARED, test) == ("passed", "")


@pytest.mark.parametrize(
    "test",
    [
        pytest.param("assert make(1) == make(1)", id="equal"),
        pytest.param("assert make(1) != make(1)", id="not different"),
        pytest.param("assert make(1) < make(2)", id="smaller"),
        pytest.param("assert len({make(1), make(1)}) == 2", id="a set"),
        pytest.param("assert make(1) == 1", id="the test's own number"),
    ],
)
def test_what_only_the_answers_own_comparison_says_is_for_a_person(apart, test):
    """The object would be its own judge, and Python's default would call a right answer wrong."""
    assert apart(COMPARED, test, source=PLAIN)[0].startswith("NotPlain")


def test_a_comparison_of_the_answers_own_does_not_see_what_is_expected(apart):
    """An object that is compared with the expected number must not learn it: the next test would get it back."""
    spy = "seen = []\nclass Spy:\n    def __eq__(self, other):\n        seen.append(other)\n        return False\ndef make(value):\n    return Spy()\ndef look():\n    return len(seen)"
    test = "try:\n    make(1) == 42\nexcept Exception:\n    pass\nassert look() == 0"
    assert apart(spy, test, source=PLAIN + "\ndef look():\n    return 0")[0] == "passed"
