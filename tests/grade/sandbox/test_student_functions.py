"""A proxy of a student's function behaves for a test as the function itself would; cells are read as IPython reads them."""

import contextlib
import inspect
import io
import json
import traceback

import msgspec
import nbformat
import numpy as np
import pandas as pd
import pytest
import torch
from IPython.core.inputtransformer2 import ESCAPE_DOUBLES, ESCAPE_SINGLES, TransformerManager

from autograder.course.paths import SOLUTIONS
from autograder.grade.sandbox.shell import CellTimeoutError, Transformers
from autograder.grade.sandbox.student_functions import (
    Calls,
    FunctionReply,
    RaisedError,
    StudentError,
    call_function,
    function_proxy,
)
from autograder.grade.wire.plain_values import decode, encode


def called(function):
    """Return a function that sends a call to this function, as the lane and a worker do."""

    def call(name, arguments):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            return call_function(function, arguments, printed.getvalue)

    return call


def proxy_of(text, name="f", writes_back=False):
    """Return the function that a text defines, its proxy, and the calls of the proxy."""
    namespace: dict = {"np": np, "pd": pd, "torch": torch}
    exec(text, namespace)
    calls = Calls(called(namespace[name]), writes_back)
    definition = text[text.index("def f") :] if "def f" in text else None
    return namespace[name], function_proxy(name, definition, calls), calls


DOCUMENTED = '''def f(x: int, /, y="a", *rest, z=None, **more) -> "list":
    """Add.

    Two lines."""
    return [x, y, rest, z, more]
'''


def test_a_proxy_has_the_name_text_docstring_and_signature_of_the_definition():
    """Tests read `inspect.getsource`, `__doc__` and parameters."""
    function, proxy, _ = proxy_of(DOCUMENTED)
    assert proxy.__name__ == "f"
    assert proxy.__doc__ == function.__doc__
    assert inspect.getdoc(proxy) == inspect.getdoc(function)
    assert inspect.getsource(proxy) == DOCUMENTED
    assert inspect.signature(proxy) == inspect.signature(function)
    assert proxy.__annotations__ == function.__annotations__
    assert inspect.isfunction(proxy)
    assert callable(proxy)


def test_a_function_without_a_definition_in_the_notebook_has_no_text():
    """As a function that `exec` has made."""
    _, proxy, _ = proxy_of("f = lambda x: x + 1")
    assert proxy(1) == 2
    with pytest.raises(OSError, match="source"):
        inspect.getsource(proxy)


@pytest.mark.parametrize("call", [
    "f(1)",
    "f(1, 'b', 2, z=[3], w={'k': (1, 2)})",
    "f(np.arange(3), torch.ones(2))[0].sum()",
    "f(1, 2)[-1]",
    "f(pd.DataFrame({'a': [1, 2]}))[0]['a'].sum()",
])  # fmt: skip
def test_a_call_returns_what_the_function_returns(call):
    """With positional and keyword arguments."""
    function, proxy, calls = proxy_of(DOCUMENTED)
    names = {"np": np, "pd": pd, "torch": torch}
    assert repr(eval(call, names | {"f": proxy})) == repr(eval(call, names | {"f": function}))
    assert not calls.wrote_arguments
    assert calls.refusal is None


@pytest.mark.parametrize(
    "raised",
    [
        "ValueError('too small', 3)", "KeyError('k')", "AssertionError('no')", "NotImplementedError()",
        "np.linalg.LinAlgError('singular')", "UnicodeDecodeError('utf-8', b'x', 0, 1, 'bad')", "OSError(2, 'missing', 'file')",
        "ZeroDivisionError('division by zero')",
    ],
)  # fmt: skip
def test_an_exception_of_python_or_of_a_library_is_raised_in_the_test(raised):
    """The exception has the same type, arguments and text, and its traceback names the line of the function."""
    function, proxy, _ = proxy_of(f"import os\ndef f():\n\n    raise {raised}")
    with pytest.raises(Exception) as expected:  # noqa: PT011 - any of these
        function()
    with pytest.raises(type(expected.value)) as error:
        proxy()
    assert ("<f in the submission>", 3) == traceback.extract_tb(error.tb)[-1][:2]
    assert type(error.value) is type(expected.value)
    assert error.value.args == expected.value.args
    assert str(error.value) == str(expected.value)


OWN = """class Own(ValueError):
    def __init__(self, need):
        self.need = need

    def __str__(self):
        return f"need {self.need}"


def f():
    raise Own(3)
"""


def test_an_exception_of_the_student_s_is_named_as_theirs_and_caught_as_its_base():
    """A test can catch it as the class of Python's from which it derives, and reads its message."""
    _, proxy, _ = proxy_of(OWN)
    with pytest.raises(ValueError, match="^need 3$") as error:
        proxy()
    assert type(error.value).__name__ == "Own"


@pytest.mark.parametrize("name", ["StopIteration", "GeneratorExit", "SystemExit", "KeyboardInterrupt", "BaseException"])
def test_an_exception_cannot_end_the_test_in_silence(name):
    """A loop or a test that one of these would end sees a StudentError."""
    _, proxy, _ = proxy_of(f"def f(x=0):\n    raise {name}()")
    with pytest.raises(StudentError, match=name):
        list(map(proxy, [1, 2]))
    _, proxy, _ = proxy_of(f"class Own({name}): pass\ndef f(x=0):\n    raise Own()")
    with pytest.raises(StudentError, match="Own"):
        list(map(proxy, [1, 2]))


def test_the_time_limit_of_a_call_is_not_an_exception_of_the_student_s():
    """It ends the request, as it ends a cell."""

    def slow():
        raise CellTimeoutError("too slow")

    with pytest.raises(CellTimeoutError):
        call_function(slow, encode(((), {})), str)


def test_printed_text_is_printed_in_the_test():
    """Also if the call raises; a test that redirects stdout reads it."""
    _, proxy, _ = proxy_of("def f(x):\n    print('seen', x)\n    return 1 / x")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        proxy(1)
        with pytest.raises(ZeroDivisionError):
            proxy(0)
    assert printed.getvalue() == "seen 1\nseen 0\n"


CHANGES = {
    "a list": ("[3, 1, 2]", "x.sort()"),
    "a longer list": ("[1]", "x.append([2])"),
    "a shorter list": ("[1, 2, 3]", "del x[:2]"),
    "a list in a list": ("[[1], [2]]", "x[0].append(5)"),
    "a list in a tuple": ("([1], 2)", "x[0].append(5)"),
    "a dict": ("{'a': [1], 'b': 2}", "x['a'].append(3); del x['b']; x['c'] = 4"),
    "a set": ("{1, 2}", "x.add(3)"),
    "a bytearray": ("bytearray(b'ab')", "x.extend(b'c')"),
    "a deque": ("__import__('collections').deque([1, 2])", "x.rotate()"),
    "an array": ("np.arange(4.0)", "x[1:] *= 2"),
    "a masked array": ("np.ma.array([1.0, 2.0])", "x[0] = np.ma.masked"),
    "a tensor": ("torch.ones(3)", "x.add_(1)"),
    "a tensor of another shape": ("torch.ones(3)", "x.resize_(2)"),
    "a gradient": ("torch.ones(3, requires_grad=True)", "(x * 2).sum().backward()"),
    "a table": ("pd.DataFrame({'a': [1, 2]})", "x['b'] = x['a'] * 2"),
    "rows of a table": ("pd.DataFrame({'a': [2, 1]})", "x.sort_values('a', inplace=True)"),
    "a column": ("pd.Series([1, 2])", "x[0] = 5"),
}


@pytest.mark.parametrize(("made", "change"), CHANGES.values(), ids=CHANGES)
def test_a_change_of_an_argument_is_noted_and_repeated_only_on_demand(made, change):
    """The test's own object is changed, so that all its names for it, and for its parts, see the change."""
    names = {"np": np, "pd": pd, "torch": torch}
    function, proxy, calls = proxy_of(f"def f(x):\n    {change}")
    value, untouched = eval(made, names), eval(made, names)
    proxy(value)
    assert calls.wrote_arguments
    assert encode(value) == encode(untouched)
    function, proxy, calls = proxy_of(f"def f(x):\n    {change}", writes_back=True)
    value, expected = eval(made, names), eval(made, names)
    inner = value[0] if made.startswith(("[[", "([")) else None
    proxy(value)
    function(expected)
    assert calls.refusal is None
    assert encode(value) == encode(expected)
    if inner is not None:
        assert value[0] is inner


def test_a_change_that_cannot_be_repeated_is_a_refusal():
    """An argument that holds a generator after the call."""
    _, proxy, calls = proxy_of("def f(x):\n    x.append(i for i in [])", writes_back=True)
    with pytest.raises(StudentError):
        proxy([1])
    assert calls.wrote_arguments
    assert "argument" in calls.refusal


def test_arguments_that_are_only_read_are_not_changed():
    """NaN, sets and tensors that require a gradient included."""
    _, proxy, calls = proxy_of("def f(*x):\n    return list(x)")
    proxy(
        [float("nan")],
        {1, "a"},
        {"k": {2}},
        torch.ones(2, requires_grad=True),
        np.array([np.nan]),
        pd.DataFrame({"a": [1]}),
    )
    assert not calls.wrote_arguments


@pytest.mark.parametrize(
    ("text", "argument", "reason"),
    [
        ("def f(x):\n    return (i for i in x)", [1], "the value that f returned cannot leave its process: a value of type generator"),
        ("def f(x):\n    return lambda: x", [1], "the value that f returned cannot leave its process: a value of type function"),
        ("def f(x):\n    return x", lambda: 1, "an argument of f cannot be sent to its process: a value of type function"),
        ("def f(x):\n    return x", iter([1]), "an argument of f cannot be sent to its process: a value of type list_iterator"),
    ],
)  # fmt: skip
def test_values_that_are_not_plain_are_a_refusal(text, argument, reason):
    """The judge reads the reason, even if the test has caught the exception."""
    _, proxy, calls = proxy_of(text)
    with pytest.raises(StudentError):
        proxy(argument)
    assert calls.refusal == reason


def test_backward_through_a_returned_tensor_is_not_silently_without_effect():
    """The graph is in the student's process; the error says so, and differs from errors of the student's code."""
    _, proxy, _ = proxy_of("def f(x):\n    return (x * 2).sum()")
    x = torch.ones(2, requires_grad=True)
    loss = proxy(x)
    assert loss.item() == 4.0
    with pytest.raises(TypeError, match="graph"):
        loss.backward()


FORGED = [
    b"",
    b"\xc1",
    msgspec.msgpack.encode([1, 2]),
    msgspec.msgpack.encode(FunctionReply(value=b"\xc1")),
    msgspec.msgpack.encode(FunctionReply(value=encode(1), changed=[(0, b"\xc1")])),
]


@pytest.mark.parametrize("reply", FORGED)
def test_a_forged_reply_is_a_student_error(reply):
    """A test that waits for a ValueError does not take it for one of the function's."""
    proxy = function_proxy("f", None, Calls(lambda name, arguments: reply))
    with pytest.raises(StudentError, match="reply"):
        proxy([1])


@pytest.mark.parametrize("error", [
    RaisedError([], "m"),
    RaisedError(["unittest.case:SkipTest", "builtins:Exception"], "m"),
    RaisedError(["autograder.check.message:NotAttempted"], "m"),
    RaisedError(["os:system"], "m", encode(("true",))),
    RaisedError(["builtins:ValueError"], "m", encode(3)),
    RaisedError(["builtins:ValueError"], "m", b"\xc1"),
    RaisedError(["__main__:a\0b", "builtins:ValueError"], "m"),
    RaisedError(["builtins:int"], "m"),
])  # fmt: skip
def test_a_forged_exception_is_of_no_class_with_a_meaning_for_the_test(error):
    """A skipped test, an untouched answer, or a function instead of a class."""
    reply = msgspec.msgpack.encode(FunctionReply(error=error))
    proxy = function_proxy("f", None, Calls(lambda name, arguments: reply))
    with pytest.raises(Exception, match="m") as raised:  # any of them
        proxy()
    assert type(raised.value).__module__ in ("autograder.grade.sandbox.student_functions", "__main__")


def test_changes_of_an_unknown_argument_are_ignored():
    """A forged reply that names a position which the call did not have."""
    reply = msgspec.msgpack.encode(FunctionReply(value=encode(1), changed=[(7, encode(1)), ("k", encode(2))]))
    proxy = function_proxy("f", None, Calls(lambda name, arguments: reply, writes_back=True))
    assert proxy([1]) == 1


def test_a_call_decodes_to_the_arguments_of_the_test():
    """The request holds a tuple and a dictionary."""
    requests = []

    def call(name, arguments):
        requests.append((name, decode(arguments)))
        return msgspec.msgpack.encode(FunctionReply(value=encode(None)))

    function_proxy("f", None, Calls(call))(1, [2], k={3})
    assert requests == [("f", ((1, [2]), {"k": {3}}))]


SPECIAL_FORMS = [
    *(f"{escape}name more" for escape in sorted(ESCAPE_SINGLES | ESCAPE_DOUBLES)),
    "if True:\n    /print 1\n    ,print a b\n\t;print a b",
    "x = 1\n  \n/print x",
    "a = %pwd",
    "lines = !ls",
    "def f():\n    a = !ls\n    return a",
    "torch.Tensor?",
    "torch.Tensor??",
    "%%time\nx = 1",
    ">>> x = 1\n... + 2",
    "In [1]: x = 1\n   ...: y = 2",
    "\n\n    x = 1\n    y = 2",
    "x = 1 \\\n  / 2",
    "x = (1\n/ 2)",
    "x = '''\n, not a call\n'''",
    "",
    "x = (1",
]


@pytest.mark.parametrize("text", SPECIAL_FORMS)
def test_a_special_form_becomes_what_ipython_makes_of_it(text):
    """Each special form of IPython, and text that resembles one, is transformed as by IPython itself."""
    assert Transformers().transform_cell(text) == TransformerManager().transform_cell(text)


def test_the_lessons_cells_become_what_ipython_makes_of_them():
    """Each cell of the lessons is transformed as by IPython itself."""
    notebooks = sorted(SOLUTIONS.glob("*/*.ipynb"))
    cells = [cell for path in notebooks for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    assert len(cells) > 400, json.dumps([path.name for path in notebooks])
    ours, theirs = Transformers(), TransformerManager()
    assert [
        cell.source for cell in cells if ours.transform_cell(cell.source) != theirs.transform_cell(cell.source)
    ] == []
