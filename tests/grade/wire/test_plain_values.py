"""Plain values are transferred as equal values of the same type, and forged bytes only raise ValueError.

Oracle: `==` of Python's own types, and the comparisons that NumPy, PyTorch and pandas offer for tests.
"""

import array
import collections
import contextlib
import datetime
import decimal
import fractions
import math
import subprocess
import sys
import time
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque

import msgspec
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from autograder.grade.wire import plain_values
from autograder.grade.wire.plain_values import NotPlain, decode, encode

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.complex_numbers(allow_nan=False)
    | st.fractions()
    | st.decimals(allow_nan=False)
    | st.dates()
    | st.times()
    | st.datetimes(timezones=st.none() | st.timezones())
    | st.timedeltas()
    | st.sampled_from([..., int, str, ValueError, np.float64, len, math.sin, range(1, 9, 2), slice(None, 3)])
)
KEYS = st.integers() | st.text(st.characters(exclude_categories=["Cs"])) | st.tuples(st.integers(), st.booleans())
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=5).map(tuple)
        | st.lists(inner, max_size=5).map(deque)
        | st.dictionaries(KEYS, inner, max_size=5)
        | st.dictionaries(KEYS, inner, max_size=5).map(OrderedDict)
        | st.sets(KEYS, max_size=5)
        | st.frozensets(KEYS, max_size=5)
    ),
    max_leaves=20,
)


def same(value, other):
    """Return whether two values of Python's types are equal, with equal types inside."""
    if type(value) is not type(other) or len(repr(value)) > 4000 or repr(value) != repr(other):
        return type(value) is type(other) and value == other
    return True


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VALUES)
def test_a_value_of_python_comes_back_equal_and_of_the_same_type(value):
    """Numbers, texts, times and containers of them, however they are nested."""
    back = decode(encode(value))
    assert back == value
    assert same(value, back)


class Tally(dict):
    """Extends a plain type without a change of how it compares."""

    def total(self):
        """Return the sum."""
        return sum(self.values())


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "value",
    [
        10**5000, -(2**63) - 1, 2**64, bytearray(b"ab"), Counter("aab"), array.array("d", [1.0, 2.0]), {1: 2}.keys(),
        {1: 2}.items(), deque([1], 3),
        datetime.datetime(2024, 10, 27, 2, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"), fold=1),
        datetime.timezone(datetime.timedelta(hours=2), "here"), NotImplemented, collections.Counter,
        torch.Size([2, 3]), torch.float32, torch.device("cpu"), np.float32(1.5), np.str_("ab"),
        np.datetime64("2024-01-01"), np.dtype([("a", "<i4"), ("b", "<U3")]), np.dtype(object), np.sin,
        pd.Timestamp("2024-01-01 10:00:00.123456789"),
        pd.Timestamp("2024-10-27 00:30", tz="UTC").tz_convert("Europe/Berlin"), pd.Timedelta("1 day 2 ns"),
        pd.Period("2024-01", "M"), pd.Interval(0.0, 1.0, "left"), np.poly1d([1.0, 2.0]),
        np.polynomial.Polynomial([1.0, 2.0]), pd.DataFrame, np.ndarray,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_each_kind_of_value_comes_back(value):
    """Equal, of the same type, and with the same text."""
    back = decode(encode(value))
    assert type(back) is type(value)
    assert back == value
    if type(value) is not int:
        assert repr(back) == repr(value)


@pytest.mark.parametrize("value", [pd.NaT, pd.NA, np.ma.masked, None, ...], ids=repr)
def test_a_constant_stays_the_one_object(value):
    """`is` recognizes a missing value on both sides."""
    assert decode(encode(value)) is value


def test_an_object_of_a_class_that_only_adds_methods_crosses_as_the_plain_value_in_it():
    """A dict with a method more compares as a dict; one that answers otherwise does not cross."""
    back = decode(encode(Tally(a=1)))
    assert type(back) is dict
    assert back == {"a": 1}

    class Lenient(dict):
        def __missing__(self, key):
            return 0

    class Equal(int):
        def __eq__(self, other):
            return True

    for value in (Lenient(a=1), Equal(3)):
        with pytest.raises(NotPlain, match=type(value).__name__):
            encode(value)


@pytest.mark.parametrize(
    "value", [Point(1, [2]), np.linalg.eig(np.eye(2)), next(pd.DataFrame({"a": [1]}).itertuples())]
)
def test_a_named_tuple_keeps_its_fields(value):
    """Tests read `result.x` and unpack the same object."""
    back = decode(encode(value))
    assert back._fields == value._fields
    assert type(back).__name__ == type(value).__name__
    assert repr(back) == repr(value)


def test_results_of_pytorch_keep_their_fields():
    """`torch.max(x, dim)` returns values and indices."""
    values, indices = decode(encode(torch.max(torch.tensor([[1.0, 3.0]]), 1)))
    assert values.tolist() == [3.0]
    assert decode(encode(torch.max(torch.eye(2), 0))).indices.tolist() == indices.new_tensor([0, 1]).tolist()


def test_a_defaultdict_keeps_a_default_of_python_and_refuses_any_other():
    """A missing key gives the same value on the other side, or an error that says that the default is not plain."""
    assert decode(encode(defaultdict(int, a=1)))["b"] == 0
    other = decode(encode(defaultdict(lambda: 7, a=1)))
    assert other == {"a": 1}
    with pytest.raises(NotPlain, match="default"):
        other["b"]
    with pytest.raises(KeyError):
        decode(encode(defaultdict(None, a=1)))["b"]


def generator():
    """Yield one number."""
    yield 1


CYCLE: list = []
CYCLE += [CYCLE, CYCLE]


@pytest.mark.parametrize(("value", "name"), [
    (generator(), "generator"),
    (iter([]), "list_iterator"),
    (map(str, []), "map"),
    (lambda: 0, "function"),
    (object(), "object"),
    (math, "module"),
    (type("Own", (), {}), "Own"),
    (eval, "eval"),
    ([].append, "append"),
    (np.zeros(2).view(type("Sub", (np.ndarray,), {"__eq__": None})), "Sub"),
    (np.random.default_rng(0), "Generator"),
    (torch.nn.Linear(1, 1), "Linear"),
    (torch.eye(2).to_sparse(), "sparse"),
    (pd.DataFrame({"a": [1]}).groupby("a"), "DataFrameGroupBy"),
    ([[generator()]], "generator"),
    (CYCLE, "contains itself"),
    ("\ud800", "surrogate"),
    (1 << 10**6, "number"),
    (fractions.Fraction(1, 1 << 10**5), "fraction"),
], ids=lambda value: value if isinstance(value, str) and value.isprintable() else "")  # fmt: skip
def test_anything_else_is_refused_by_the_name_of_its_type(value, name):
    """Code, iterators, objects with their own behavior, and endless values."""
    with pytest.raises(NotPlain, match=name):
        encode(value)


ARRAYS = [
    np.array(3.0),
    np.zeros((0, 3), "f4"),
    np.arange(6).reshape(2, 3).T,
    np.array(["a", "bcd"]),
    np.array([b"a"]),
    np.array(["2024-01-01"], "M8[D]"),
    np.array([1.5], ">f8"),
    np.array([True]),
    np.array([1 + 2j], "c8"),
    np.array([(1, "x"), (2, "y")], [("a", "i4"), ("b", "U3")]),
    np.array([1, "a", None, [2, 3]], object),
    np.array([np.zeros(2), np.ones(3)], object),
    np.matrix([[1.0, 2.0]]),
    np.rec.array([(1, 2.0)], names="a,b"),
    np.ma.masked_less([1.0, -2.0, 3.0], 0),
    np.ma.array([1, 2], fill_value=7),
    np.longdouble([0.1]),
]


@pytest.mark.parametrize("value", ARRAYS, ids=lambda value: f"{type(value).__name__} {value.dtype}")
def test_an_array_keeps_its_values_type_and_shape(value):
    """For every dtype without objects, and for plain objects, masked or not."""
    back = decode(encode(value))
    assert type(back) is type(value)
    assert back.dtype == value.dtype
    assert back.shape == value.shape
    assert repr(back) == repr(value)
    assert back.flags.writeable


@pytest.mark.parametrize(
    "answer", [np.ma.masked_all(3), np.ma.array([1.0, 9.0, 3.0], mask=[0, 1, 0]), np.array([]), np.array(1.0)]
)
def test_a_test_of_numpy_says_of_an_array_what_it_says_of_the_original(answer):
    """Masked, empty and 0-d answers pass `assert_allclose` for special reasons, on both sides."""

    def outcome(value):
        try:
            np.testing.assert_allclose(value, np.array([1.0, 2.0, 3.0]))
        except AssertionError as error:
            return str(error)
        return "passed"

    assert outcome(decode(encode(answer))) == outcome(answer)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)])
def test_a_tensor_keeps_its_values_type_and_shape(dtype, shape):
    """For every dtype of whole bytes."""
    value = torch.arange(math.prod(shape)).reshape(shape).to(getattr(torch, dtype))
    torch.testing.assert_close(decode(encode(value)), value, rtol=0, atol=0)


def test_a_leaf_keeps_its_gradient_and_a_parameter_its_type():
    """Tests read `.grad` after a student's function has called `backward()`."""
    leaf = torch.ones(2, requires_grad=True)
    (leaf * 3).sum().backward()
    back = decode(encode(leaf))
    assert back.is_leaf
    assert back.grad.tolist() == [3.0, 3.0]
    parameter = decode(encode(torch.nn.Parameter(torch.ones(2))))
    assert type(parameter) is torch.nn.Parameter
    assert parameter.requires_grad


def test_a_result_of_an_operation_requires_grad_but_its_graph_cannot_be_followed():
    """`backward()` raises a NotPlain, so a test that needs the graph is noticed."""
    result = decode(encode(torch.ones(2, requires_grad=True) * 2))
    assert result.requires_grad
    assert not result.is_leaf
    assert result.detach().tolist() == [2.0, 2.0]
    with pytest.raises(NotPlain, match="graph"):
        result.sum().backward()


TIMES = pd.date_range("2024-03-30", periods=3, freq="D")
COLUMNS = {
    "int8": pd.Series([1, 2, 3], dtype="int8"),
    "float": pd.Series([1.0, np.nan, 3.0]),
    "text": pd.Series(["a", None, "c"]),
    "object": pd.Series(["a", 1, None], dtype=object),
    "bool": pd.Series([True, False, True]),
    "Int64": pd.Series([1, None, 3], dtype="Int64"),
    "Float32": pd.Series([1.5, None, 3], dtype="Float32"),
    "boolean": pd.Series([True, None, False], dtype="boolean"),
    "string": pd.Series(["a", None, "c"], dtype="string"),
    "times": pd.Series(TIMES),
    "seconds": pd.Series(TIMES).astype("datetime64[s]"),
    "zoned": pd.Series(TIMES.tz_localize("Europe/Berlin")),
    "deltas": pd.Series(TIMES - TIMES[0]),
    "periods": pd.Series(TIMES.to_period("M")),
    "categories": pd.Series(["b", "a", None], dtype=pd.CategoricalDtype(["c", "b", "a"], ordered=True)),
    "intervals": pd.Series(pd.cut([1, 2, 3], 2)),
    "plain intervals": pd.Series(pd.interval_range(0, 3)),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_keeps_its_dtype(name):
    """pandas' own comparison finds no difference, exact in dtype and index, alone and in a table with others."""
    series = COLUMNS[name].rename(name)
    pd.testing.assert_series_equal(decode(encode(series)), series, check_freq=True)
    array = decode(encode(series.unique()))  # of pandas 3, also for text
    assert type(series.unique()) is type(array)
    assert array.dtype == series.dtype
    pd.testing.assert_series_equal(pd.Series(array), pd.Series(series.unique()))
    table = pd.DataFrame({name: series, "other": [1, 2, 3]}, index=["x", "y", "z"])
    table.attrs["unit"] = "m"
    back = decode(encode(table))
    pd.testing.assert_frame_equal(back, table, check_freq=True, check_flags=True)
    assert back.attrs == {"unit": "m"}


INDEXES = {
    "range": pd.RangeIndex(2, 10, 3, name="n"),
    "numbers": pd.Index([3, 1, 2]),
    "texts": pd.Index(["a", "b"], name="letters"),
    "objects": pd.Index([1, "a", (1, 2)], dtype=object),
    "tuples": pd.Index([(1, 2), (3, 4)], tupleize_cols=False),
    "daily": TIMES,
    "zoned": TIMES.tz_localize("Europe/Berlin"),
    "deltas": pd.timedelta_range("1h", periods=3, freq="h"),
    "periods": pd.period_range("2024-01", periods=3, freq="Q"),
    "intervals": pd.interval_range(0, 3, closed="left"),
    "categories": pd.CategoricalIndex(["b", "a"], ["b", "a"]),
    "levels": pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=["letter", None]),
    "unused level": pd.MultiIndex.from_product([["a", "b"], [1, 2]])[:2],
    "empty": pd.Index([], dtype="int64"),
}


@pytest.mark.parametrize("name", INDEXES)
def test_an_index_keeps_its_kind(name):
    """With its dtype, name, frequency and levels, as rows and as columns of a table."""
    index = INDEXES[name]
    back = decode(encode(index))
    pd.testing.assert_index_equal(back, index, exact=True)
    assert getattr(back, "freq", None) == getattr(index, "freq", None)
    table = pd.DataFrame(np.zeros((len(index), len(index))), index=index, columns=index)
    pd.testing.assert_frame_equal(decode(encode(table)), table)


def test_a_table_computed_from_a_table_crosses():
    """Results of grouping, pivoting and counting, with columns of the same name twice."""
    table = pd.DataFrame({"a": ["x", "y", "x"], "b": [1, 2, 3], "c": [1.0, 2.0, 3.0]})
    for value in (
        table.groupby("a").agg(["mean", "max"]),
        table.describe(include="all"),
        table["a"].value_counts(),
        table.pivot_table("b", "a", "c"),
        pd.concat([table, table], axis=1),
        table.iloc[:0],
        pd.DataFrame(),
    ):
        check = pd.testing.assert_series_equal if isinstance(value, pd.Series) else pd.testing.assert_frame_equal
        check(decode(encode(value)), value)


SEEDS = [
    encode(value)
    for value in (
        [1, "a", {"b": (2.0, None)}, {1, 2}],
        [fractions.Fraction(1, 3), decimal.Decimal("1.5"), datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), 10**30],
        [Counter("ab"), defaultdict(int), deque([1]), array.array("i", [1]), Point(1, 2), slice(1), range(3), int, len],
        [np.arange(3), np.array([1, "a"], object), np.float32(1), np.ma.array([1], mask=[1]), np.dtype("f4"), np.sin],
        [torch.ones(2), torch.ones(2, requires_grad=True) * 2, torch.Size([1]), torch.float32],
        [
            pd.DataFrame({"a": [1], "b": ["x"]}),
            INDEXES["levels"],
            pd.Series(TIMES),
            pd.Timestamp("2024-01-01", tz="UTC"),
        ],
        [series for name, series in COLUMNS.items() if name in ("categories", "intervals", "zoned", "Int64")],
    )
]


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SEEDS), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=6))
def test_changed_bytes_give_a_value_or_a_value_error(seed, changes):
    """Whatever single bytes are changed, `decode` raises nothing else and ends soon."""
    data = bytearray(seed)
    for position, byte in changes:
        data[position % len(data)] = byte
    start = time.monotonic()
    with contextlib.suppress(ValueError):
        decode(bytes(data))
    assert time.monotonic() - start < 5


PARTS = st.recursive(
    st.none() | st.integers(-5, 2**63) | st.floats() | st.text(max_size=5) | st.binary(max_size=20) | st.just("O"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=8,
)


def tags():
    """Return the tags of all types."""
    forms = [*plain_values._CODECS.values(), plain_values._NAMED_TUPLE]
    for library in plain_values.LIBRARIES:
        forms += plain_values._library_codecs(library).values()
    return sorted({form.tag for form in forms})


@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(tags()), st.lists(PARTS, max_size=5))
@example("pandas.TimedeltaArray", [[None]])
def test_forged_parts_give_a_plain_value_or_a_value_error(tag, parts):
    """Each type, built from parts that no value of it has; a resulting value can be encoded again."""
    try:
        value = decode(msgspec.msgpack.encode({tag: parts}))
    except ValueError:
        return
    encode(value)


ALIKE = [{"int": [(number * (2**61 - 1)).to_bytes(20, "little")]} for number in range(20_000)]
BOMBS = {
    "empty maps": b"\xdd" + (30_000_000).to_bytes(4, "big") + b"\x80" * 30_000_000,
    "a long list announced": b"\xdd\xff\xff\xff\xff",
    "deep lists": b"\x91" * 5_000_000,
    "one hash": msgspec.msgpack.encode({"set": ALIKE}),
    "a huge bytearray": msgspec.msgpack.encode({"bytearray": [10**12]}),
    "a huge array": msgspec.msgpack.encode({"numpy.array": ["<f8", [10**12], b""]}),
    "many empty items": msgspec.msgpack.encode({"numpy.array": ["|V0", [10**12], b""]}),
    "objects in an array": msgspec.msgpack.encode({"numpy.array": ["|O", [1], b"12345678"]}),
    "objects in fields": msgspec.msgpack.encode({"numpy.array": [[{"tuple": ["a", "|O"]}], [1], b"12345678"]}),
    "a fraction from a text": msgspec.msgpack.encode({"Fraction": ["1e1000000000", 1]}),
    "many tables": msgspec.msgpack.encode([{"pandas.RangeIndex": [0, 1, 1, None]}] * 100_000),
    "many types": msgspec.msgpack.encode([{"namedtuple": [f"N{i}", []]} for i in range(5000)]),
    "a class with code": msgspec.msgpack.encode({"type": ["subprocess", "Popen"]}),
    "a function with effects": msgspec.msgpack.encode({"builtin_function_or_method": ["builtins", "exec"]}),
    "a zone in a file": msgspec.msgpack.encode({"pandas.Timestamp": [{"numpy.scalar": ["<M8[s]", [], b"\0" * 8]}, "dateutil//dev/zero"]}),
    "an extension": msgspec.msgpack.encode(msgspec.msgpack.Ext(5, b"x")),
    "an unknown tag": msgspec.msgpack.encode({"object": []}),
    "two tags": msgspec.msgpack.encode({"list": [], "tuple": []}),
    "no bytes": b"",
}  # fmt: skip


@pytest.mark.parametrize("data", BOMBS.values(), ids=BOMBS)
def test_bytes_made_to_exhaust_or_run_something_are_refused_soon(data):
    """In seconds, and without building the announced values."""
    start = time.monotonic()
    with pytest.raises(ValueError, match="not a plain value"):
        decode(data)
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("library", ["torch", "numpy", "pandas"])
def test_a_library_is_not_imported_for_values_of_python(library):
    """The main process can use the module without PyTorch; the second line shows that a value of NumPy's needs NumPy."""
    code = (
        "import sys; from autograder.grade.wire.plain_values import *; decode(encode([1, {'a': (2, 'b')}, len, 2**70]))"
    )
    report = f"; print({library!r} in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code + report], text=True) == "False\n"
    used = (
        "; decode(bytes([0x81, 0xAB]) + b'numpy.ufunc' + bytes([0x91, 0xA3]) + b'sin'); print('numpy' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code + used], text=True) == "True\n"
