"""What both sides keep in step: values by number, files of a folder, and handles of the learner's objects."""

import collections
import copy
import datetime
import fractions
import pathlib

import numpy
import pytest
import torch

from autograder.grade.sandbox.objects.object_table import ObjectTable
from autograder.grade.sandbox.objects.operations import perform
from autograder.grade.wire.shared.shared_folder import SharedFolder
from autograder.grade.wire.values.codec import Unsendable
from autograder.grade.wire.values.graph_types import graph_codecs
from autograder.grade.wire.values.message_form import LONGEST_STRUCTURE, Values
from autograder.grade.wire.values.value_table import ValueTable, packed, unpacked

VALUES = [
    2**200, -(2**99), "\ud800", "é" * 999, b"x" * 999, range(3, 9), slice(1, 2), collections.Counter("aab"),
    collections.OrderedDict(a=1), collections.deque([1], 3), bytearray(b"ab"),
    fractions.Fraction(1, 3), datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC), datetime.timedelta(1, 2),
    pathlib.Path("a/b"), {"a": 1}.keys(), numpy.array(["a", "bcd"]), numpy.array(3), numpy.float32(2),
    numpy.datetime64("2020-01-01"), numpy.zeros(2, [("a", "i4"), ("b", "f8", (2,))]), numpy.zeros((0, 3)),
    numpy.array([1, "a", None], object), numpy.dtype("f4"), numpy.poly1d([1, 2]), torch.Size([1, 2]), torch.float32,
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_data_of_every_kind_comes_back(value):
    """Oracle: `repr` and the type, which tell 1 from True and dtypes apart."""
    back = unpacked(packed(value))
    assert (type(value), repr(value)) == (type(back), repr(back))


def test_what_is_shared_stays_shared():
    """Oracle: `copy.deepcopy`, which keeps one object one object."""
    row = [0] * 3
    found, expected = unpacked(packed([row] * 3)), copy.deepcopy([row] * 3)
    assert expected == found
    assert found[0] is found[2]


def test_writes_reach_the_same_object_on_the_other_side():
    """What one side changes, at any depth, the other side finds in its own object; and what comes back is that object."""
    ours, theirs = ValueTable(), ValueTable()
    numbers, array = [1, [2]], numpy.ones(3)
    copied, other = theirs.unpack(ours.pack(numbers, array))
    copied.append(copied[1])
    other[0] = 7
    back, held = ours.unpack(theirs.pack(copied, {"array": other}))

    assert [1, [2], [2]] == numbers
    assert (True, True, True) == (back is numbers, numbers[1] is numbers[2], held["array"] is array)
    assert 7 == array[0]
    numbers.pop()
    theirs.unpack(ours.pack())
    assert [1, [2]] == copied


def test_a_message_cannot_be_built_to_be_slow():
    """Colliding hashes, parts shared a million times over, and structures that are all small items are refused."""
    colliding = packed([n * (2**61 - 1) for n in range(1000)]).structure.replace(b"\xa4list", b"\xa3set")
    with pytest.raises(ValueError, match="the same hash"):
        unpacked(Values(colliding))
    doubled = (1,)
    for _ in range(60):
        doubled = (doubled, doubled)
    with pytest.raises(Unsendable, match="too much to compare"):
        packed(doubled)
    with pytest.raises(ValueError, match="too many items"):
        unpacked(Values(b"\x90" * (LONGEST_STRUCTURE + 1)))


def test_files_follow_each_other(tmp_path):
    """Plain files of one side reach the other; no link is followed, nothing importable and nothing of the teacher's written."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    (ours / "data.csv").write_text("1")
    sender, receiver = SharedFolder(theirs), SharedFolder(ours, frozenset({"data.csv"}))
    for name in ("out.txt", "data.csv", "helper.py"):
        (theirs / name).write_text("new")
    (theirs / "link").symlink_to("/etc/passwd")
    (theirs / "folder").mkdir()
    receiver.write(sender.changed() | {"../up.txt": b"", "a/b": b"", "": b"", "..": b""})

    assert {"out.txt", "data.csv"} == {path.name for path in ours.iterdir()}
    assert "1" == (ours / "data.csv").read_text()
    assert {} == sender.changed() == receiver.changed()


def test_one_object_has_one_handle():
    """However often it is sent; so `is` holds on the other side."""
    table = ObjectTable(print)
    one, other = object(), object()
    assert table.handle(one) == table.handle(one) != table.handle(other)
    assert one is table.put_together("handle", [table.handle(one)])


def test_a_special_method_is_called_as_python_does():
    """On the type, not on the instance."""

    class Shouts:
        def __add__(self, other):
            return other * 2

    shouts = Shouts()
    shouts.__add__ = lambda other: 0
    assert shouts + 3 == perform("__add__", (shouts, 3))


def test_tables_come_back_and_are_written_once():
    """Oracle: pandas' own comparison; an unchanged table is no write, and a changed one is the same object here."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    dates = pandas.date_range("2020-01-01", periods=2, tz="UTC")
    columns = {
        "n": [1, 2],
        "s": ["x", None],
        "d": dates,
        "c": pandas.Categorical(["a", "b"]),
        "i": pandas.array([1, None]),
    }
    table = pandas.DataFrame(columns)
    pandas.testing.assert_frame_equal(table, unpacked(packed(table)))
    ours, theirs = ValueTable(), ValueTable()
    (there,) = theirs.unpack(ours.pack(table))
    quiet = theirs.pack()
    there["twice"] = there["n"] * 2
    ours.unpack(theirs.pack())

    assert Values(b"\x93\x90\x90\x90") == quiet
    assert [2, 4] == table["twice"].tolist()


@pytest.mark.parametrize("kind", ["Graph", "DiGraph", "MultiGraph", "MultiDiGraph"])
def test_graphs_come_back_with_the_order_of_their_neighbours(kind):
    """Oracle: networkx' own comparison, and the order in which it lists neighbours, by which searches go."""
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    graph = getattr(networkx, kind)([("b", "a"), ("c", "b"), ("a", "c"), ("b", "b"), ("b", "a")], name="round")
    graph.add_node(("far", 1), colour="red")
    graph.add_edge("c", "d", weight=2.5)
    graph.remove_edge("b", "a")
    graph.add_edge("b", "a", weight=1)
    back = unpacked(packed(graph))
    assert type(graph) is type(back)
    assert networkx.utils.graphs_equal(graph, back)
    assert [(node, list(others)) for node, others in graph.adjacency()] == [
        (node, list(others)) for node, others in back.adjacency()
    ]
    assert graph.is_directed() is False or [list(graph.pred[node]) for node in graph] == [
        list(back.pred[node]) for node in back
    ]


def test_a_graph_is_written_on_the_other_side():
    """What is changed there in place is changed in the same graph here, and the next change of ours arrives, too."""
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    ours, theirs, graph = ValueTable(), ValueTable(), networkx.path_graph(3)
    (there,) = theirs.unpack(ours.pack(graph))
    there.remove_node(0)
    there.nodes[2]["colour"] = "red"
    (back,) = ours.unpack(theirs.pack(there))
    assert back is graph
    assert ([1, 2], "red") == (list(graph), graph.nodes[2]["colour"])
    graph.add_edge(2, 9)
    theirs.unpack(ours.pack())
    assert [2] == list(there[9])


@pytest.mark.parametrize("order", [[[1], []], [[1], [0, 1]], [[], [0]], [[1]]])
def test_a_graph_whose_neighbours_contradict_its_edges_is_refused(order):
    """No submission can send a graph with an edge that has one end only."""
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    codec = graph_codecs()[networkx.Graph]
    parts = codec.take_apart(networkx.Graph([(0, 1)]), lambda item: item)
    assert networkx.utils.graphs_equal(networkx.Graph([(0, 1)]), codec.put_together(*parts))
    with pytest.raises((ValueError, KeyError)):
        codec.put_together(*parts[:3], order, None)
