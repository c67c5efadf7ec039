# ruff: noqa: E501 - a submission's text, or a row of a table, is easier to read on one line
"""Plain assertions can use a learner's functions and variables as if they were in the same process."""

import contextlib

import msgspec
import nbformat
import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.grade.submission.notebook_grade import CellGrade
from autograder.grade.submission.submission_grader import SubmissionGrader
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.submission.trusted import verdict_memory
from autograder.grade.submission.trusted.remote_names import RemoteNames
from autograder.grade.wire import messages
from autograder.grade.wire.values.codec import Unsendable
from autograder.grade.wire.values.value_table import BY_TAG, Values, ValueTable, packed, unpacked
from tests.grade.conftest import LIMITS
from tests.grade.small_course import KNOWN, graded_cell, teacher

RESULT = verdict_memory.TestResult(CellGrade(status="correct", points=1.0, max_points=1.0), [])
SOLUTION = """
import torch
from torch import nn

def double(x):
    return x * 2

def shout(name):
    print(f"hello {name}")

def refuse(x):
    raise ValueError("must not be negative")

def fill(tensor, items):
    tensor.fill_(7)
    items.append(1)

def pair(x):
    return {"sum": x.sum(), "parts": [x, (1, "a")]}

class Net(nn.Module):
    pass

class Own(Exception):
    pass

def own():
    raise Own("mine")

def module():
    return Net()

def endless():
    found = []
    found.append(found)
    return found

def late(w):
    a = w.exp()
    a.mul_(2)
    return a

net = Net()
answer = {"a": [1, 2.5, "x"], "t": torch.ones(2)}
max = 5
"""


@pytest.fixture(scope="module")
def grader(server):
    """A grader at the strongest level."""
    return SubmissionGrader(server, LIMITS)


def graded(grader, test: str, solution: str = SOLUTION):
    """Returns the grade of one test over one solution cell."""

    def answer(text):
        return nbformat.v4.new_code_cell(text, metadata={"nbgrader": KNOWN | {"grade_id": "answer", "solution": True}})

    setup = teacher("import torch\nimport pytest\n\nHELPER = 3\n\ndef helper(x):\n    return x + HELPER")
    cells = [setup, answer(SOLUTION), graded_cell("test", test, 2)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    data = nbformat.writes(nbformat.v4.new_notebook(cells=[setup, answer(solution), cells[2]]))
    return grader.grade(AssignmentSource("n", notebook), data.encode(), {}).cells["test"]


@pytest.mark.parametrize(
    "test",
    [
        pytest.param("assert double(4) == 8", id="a number"),
        pytest.param("assert torch.equal(double(torch.ones(2)), torch.tensor([2.0, 2.0]))", id="a tensor"),
        pytest.param("assert answer['a'] == [1, 2.5, 'x'] and answer['t'].sum() == 2", id="a variable"),
        pytest.param("with pytest.raises(ValueError, match='negative'):\n    refuse(-1)", id="an exception"),
        pytest.param("t, items = torch.zeros(2), []\nfill(t, items)\nassert t.tolist() == [7, 7] and items == [1]", id="writes into arguments"),
        pytest.param("import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as said:\n    shout('Ann')\nassert said.getvalue() == 'hello Ann\\n'", id="what it prints"),
        pytest.param("assert helper(1) == 4", id="the teacher's own helpers"),
        pytest.param("x = torch.tensor([1.0, 2.0], requires_grad=True)\ndouble(x).sum().backward()\nassert x.grad.tolist() == [2, 2]", id="a gradient"),
        pytest.param("x = torch.tensor([1.0], requires_grad=True)\nout = pair(x * 3)\n(out['sum'] + out['parts'][0].sum()).backward()\nassert x.grad.tolist() == [6]", id="gradients through containers"),
        pytest.param("w = torch.ones(2, requires_grad=True)\nwith pytest.raises(RuntimeError, match='inplace'):\n    late(w).sum().backward()", id="backward's own error"),
        pytest.param("assert max == 5", id="a name that hides a builtin"),
    ],
)  # fmt: skip
def test_an_assertion_on_right_work_passes(grader, test):
    """Full points, and no reason needed."""
    grade = graded(grader, test)
    assert ("correct", 2.0, "") == (grade.status, grade.points, grade.reason)


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        pytest.param("assert double(4) == 9", "AssertionError", id="a failed assertion"),
        pytest.param("assert missing(4) == 9", "nothing of this name is defined", id="a name that is not there"),
        pytest.param("assert not net.training", "AssertionError", id="a live module"),
        pytest.param("assert not module().training", "AssertionError", id="a live module returned"),
        pytest.param("Net(3)", "TypeError", id="a class"),
        pytest.param("own()", "Own: mine", id="an exception of its own type"),
        pytest.param("1 / 0", "ZeroDivisionError", id="a mistake in the test"),
    ],
)
def test_a_failure_has_a_reason_that_can_be_read(grader, test, reason):
    """No points, and the reason says what to do."""
    grade = graded(grader, test)
    assert 0.0 == grade.points
    assert reason in grade.reason


def test_a_value_that_cannot_cross_is_for_a_person(grader):
    """The answer may be right; that it cannot be sent is no fault of its author."""
    grade = graded(grader, "endless()")
    assert ("for a person", None) == (grade.status, grade.points)
    assert "a list that holds itself, or is nested too deeply, cannot leave" in grade.reason


def test_what_a_test_cannot_hand_over_is_named_as_the_tests_own(grader):
    """The answer returned nothing yet, so that the teacher must not look for the fault there."""
    grade = graded(grader, "class Axes: pass\ndouble(Axes())")
    assert ("for a person", None) == (grade.status, grade.points)
    assert "the test hands an Axes to the answer, which is in another process" in grade.reason


def test_an_exception_of_the_answer_ends_no_loop_of_the_test(grader):
    """`raise StopIteration` would end `zip(map(f, ...), expected)` at once, and the test with it."""
    wrong = SOLUTION.replace("return x * 2", "raise StopIteration")
    grade = graded(
        grader, "for found, expected in zip(map(double, [1, 2]), [2, 4]):\n    assert found == expected", wrong
    )
    assert 0.0 == grade.points
    assert grade.reason.startswith("StopIteration")


class OneAnswer:
    """A worker with one variable."""

    def __init__(self, value):
        self.value, self.asked = value, 0

    def ask(self, request, form):
        """Describes the variable."""
        self.asked += 1
        return form("data", type(self.value).__name__, packed(self.value))


@pytest.mark.parametrize(
    ("first", "second"), [([1, 0, 1], [True, False, True]), (1, 1.0), ([0.0], [-0.0]), ({"a": 1}, {"a": True})]
)
def test_equal_values_of_other_types_are_not_the_same_lookup(first, second):
    """A test may tell 1 from True, so what it said of one is not known of the other, in either order."""
    for one, other in ((first, second), (second, first)):
        names, memory = RemoteNames(OneAnswer(one)), verdict_memory.VerdictMemory()
        names.value("x")
        memory.keep("test", names.lookups(), RESULT)
        assert RESULT is memory.find("test", names)
        names.worker.value = other
        assert memory.find("test", names) is None


def test_as_many_questions_for_the_thousandth_submission():
    """What is known of a thousand other answers is found by asking for each name once."""
    memory = verdict_memory.VerdictMemory()
    for number in range(1000):
        names = RemoteNames(OneAnswer(number))
        names.value("x")
        memory.keep("test", names.lookups(), RESULT._replace(wrote_inputs=bool(number % 2)))
    for number in (0, 999, 1000):
        names = RemoteNames(OneAnswer(number))
        found = memory.find("test", names)
        assert (1, number) == (names.worker.asked, number if found else 1000)
        assert found is None or found.wrote_inputs is bool(number % 2)


WRITES = """
def fill(x, items):
    x[...] = 0
    items.append(1)

numbers = []
"""


@pytest.fixture
def names(server):
    """The names of a learner whose function writes into its arguments."""
    with server.worker({}) as worker:
        worker.ask(messages.RunCell(WRITES), messages.CellOutputs)
        yield RemoteNames(worker)


@pytest.mark.parametrize("keep", [False, True])
def test_writes_into_inputs_are_noticed_and_kept_out(names, keep):
    """What the test made stays as it was where the model answer writes nothing; what the learner made changes."""
    names.begin_test(keep_inputs=keep)
    assert not names.wrote_inputs
    x, numbers = numpy.ones(2), names.value("numbers")
    names.value("fill")(x, numbers)

    assert ([1, 1] if keep else [0, 0]) == x.tolist()
    assert [1] == numbers
    assert (keep, True) == (names.unexpected_writes, names.wrote_inputs)
    names.begin_test()
    assert not names.wrote_inputs


@pytest.mark.parametrize(
    ("last", "points"),
    [("1.5", 1.5), ("2", 2.0), ("0", 0.0), ("'text'", 2.0), ("None", 2.0), ("float('nan')", 0.0), ("-1", 0.0), ("99", 2.0), ("1 == 2", 0.0)],
)  # fmt: skip
def test_partial_credit_is_the_value_of_the_tests_last_line(grader, last, points):
    """A number gives that many points; nonsense gives none, where nbgrader 0.9.6 gives all."""
    assert points == graded(grader, f"assert double(1) == 2\n{last}").points


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary() | st.complex_numbers(allow_nan=False),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner) | st.frozensets(st.integers()),
    max_leaves=15,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(PLAIN)
def test_plain_data_comes_back_as_it_went(value):
    """Sending a value changes neither the value nor its type."""
    back = unpacked(packed(value))
    assert (value, type(value)) == (back, type(back))


NODES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.floats() | st.text(max_size=9) | st.binary(max_size=9) | st.sampled_from(sorted(BY_TAG)),
    lambda inner: st.lists(inner, max_size=6),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(NODES, min_size=3, max_size=3), st.lists(st.binary(max_size=9), max_size=2))
def test_words_that_are_no_value_are_refused(message, blobs):
    """Whatever a worker sends as data is a value or a ValueError, nothing else."""
    with contextlib.suppress(ValueError):
        ValueTable().unpack(Values(msgspec.msgpack.encode(message), blobs))


def test_arrays_and_tensors_keep_dtype_and_shape():
    """Every kind of number that PyTorch and NumPy share can be sent."""
    for dtype in (torch.float16, torch.bfloat16, torch.int8, torch.bool, torch.complex64, torch.float64):
        tensor = torch.ones(2, 3).to(dtype)
        back = unpacked(packed(tensor))
        assert (tensor.dtype, tensor.tolist()) == (back.dtype, back.tolist())
    array = numpy.arange(6, dtype="int16").reshape(2, 3)
    assert (array == unpacked(packed(array))).all()


class Liar(float):
    """Equal to everything."""

    def __eq__(self, other):
        return True

    __hash__ = float.__hash__


class Sub(torch.Tensor):
    """A tensor subclass, which could override anything."""


@pytest.mark.parametrize("value", [Liar(), torch.ones(1).as_subclass(Sub), object(), len, [[Liar()]], iter([])])
def test_only_exact_types_cross(value):
    """A subclass could lie about itself, so it is not sent."""
    with pytest.raises(Unsendable, match="cannot leave"):
        packed(value)
