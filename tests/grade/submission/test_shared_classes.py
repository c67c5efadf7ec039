# ruff: noqa: E501 - an answer with its test is easier to read on few lines
"""A class that the teacher gives out is the same for the test and the answers: its objects cross, and its methods are the teacher's."""

import pytest

from autograder.grade.submission.submission_grader import SubmissionGrader
from tests.grade.conftest import LIMITS
from tests.grade.small_course import answer, graded_cell, hand_in, points, source, teacher

NODE = "import abc, enum\nclass Node:\n    def __init__(self, value, left=None, right=None):\n        self.value, self.left, self.right = value, left, right\n    def total(self):\n        return self.value + sum(side.total() for side in (self.left, self.right) if side)\nclass Shape(abc.ABC):\n    @abc.abstractmethod\n    def area(self): ...\nclass Way(enum.Enum):\n    UP, DOWN = 1, 2"

RIGHT = [
    ("def f(n):\n    return 0 if n is None else 1 + max(f(n.left), f(n.right))", "assert f(Node(1, Node(2))) == 2"),
    ("def f(xs):\n    return Node(xs[0], Node(xs[1]))", "n = f([1, 2])\nassert isinstance(n, Node) and n.left.total() == 2 and n.total() == 3"),
    ("def f(n):\n    n.left, n.right = n.right, n.left", "n = Node(1, Node(2))\nf(n)\nassert n.right.value == 2 and n.left is None"),
    ("def f(n, v):\n    n.left = Node(v)\n    return n", "n = Node(1)\nassert f(n, 5) is n and n.left.value == 5 and isinstance(n.left, Node)"),
    ("class f(Shape):\n    def area(self):\n        return 4", "assert issubclass(f, Shape) and isinstance(f(), Shape) and f().area() == 4"),
    ("def f(way):\n    return Way.UP if way is Way.DOWN else Way.DOWN", "assert f(Way.UP) is Way.DOWN and f(Way.DOWN) == Way.UP"),
    ("def f(n):\n    first = Node(0)\n    first.left = first\n    return first", "n = f(3)\nassert isinstance(n, Node) and n.left.left.value == 0"),
    ("def f(n):\n    first = Node(0)\n    for i in range(n):\n        first = Node(i, first)\n    return first", "n = f(60)\nfound = []\nwhile n:\n    found.append(n.value)\n    n = n.left\nassert found == [*range(59, -1, -1), 0]"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "test"), RIGHT, ids=[test[:40] for _, test in RIGHT])
def test_objects_of_the_teachers_class_cross(server, model, test):
    """Given to the answer, made by it, changed by it, extended by it; a cycle and a long list, too."""
    of = source(teacher(NODE), answer("a", model), graded_cell("t", test))
    grader = SubmissionGrader(server, LIMITS)
    assert {"t": 1.0} == points(grader.grade(of, hand_in(of), {}, 7))
    assert {"t": 0.0} == points(grader.grade(of, hand_in(of, {"a": "def f(*_):\n    return 3"}), {}, 7))


LIES = [
    "Node.total = lambda self: 42\ndef f():\n    return Node(1)",
    "def f():\n    found = Node(1)\n    found.total = lambda: 42\n    return found",
    "class Node:\n    def __init__(self, value):\n        self.value = value\n    def total(self):\n        return 42\ndef f():\n    return Node(1)",
    "class Mine(Node):\n    def __eq__(self, other):\n        return True\n    def __add__(self, other):\n        return 42\ndef f():\n    return Mine(1)",
    "class Mine(int):\n    def __radd__(self, other):\n        return 42\n    __add__ = __radd__\ndef f():\n    return Node(Mine(1))",
]


@pytest.mark.parametrize("lie", LIES)
def test_an_answer_does_not_replace_the_teachers_methods(server, lie):
    """`total` is the teacher's, whatever the submission has made of the class or of one object."""
    test = "n = f()\nassert n.total() == 42 and n.total() != 1"
    of = source(teacher(NODE), answer("a", "def f():\n    return Node(42)"), graded_cell("t", test))
    grader = SubmissionGrader(server, LIMITS)
    assert {"t": 1.0} == points(grader.grade(of, hand_in(of), {}, 7))
    assert not points(grader.grade(of, hand_in(of, {"a": lie}), {}, 7))["t"]
