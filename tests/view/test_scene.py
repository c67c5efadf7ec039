"""The scene: each key has a shape and a state, nothing in it is code, blocks never overlap, and the plots agree with the recording."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import matplotlib as mpl
import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.locale.languages import use_language
from autograder.locale.line_breaks import columns
from autograder.tape import record
from autograder.tape.recording.schema import RecordingError, from_json, to_json
from autograder.tape.recording.verdict_types import Gradient
from autograder.view.draw import plots
from autograder.view.scene import folding, layout, node_graph
from autograder.view.scene.composition import Scene, build_scene, draw_gradients
from autograder.view.scene.layout import place_blocks
from autograder.view.shapes import BOLD, MONO, Key
from autograder.view.text import gradient_values

TAGS = {"g", "rect", "path", "text", "tspan", "circle", "title"}


def version(part: str, number: int) -> str:
    """Return the key of a part's version."""
    return str(Key(part, number, "version"))


def shapes(scene: Scene) -> Iterator[list]:
    """Yield every shape of a scene."""

    def walk(tree: list) -> Iterator[list]:
        yield tree
        for child in tree[2:]:
            if isinstance(child, list):
                yield from walk(child)

    for drawing in [*scene.views, scene.memory, *filter(None, [scene.gradients])]:
        for tree in drawing.shapes:
            yield from walk(tree)


def test_every_block_is_drawn_with_a_state(recording):
    """Each node and each saved tensor has a shape in some view, and each shape has a state: else it would never be shown."""
    scene = build_scene(recording)
    given = {key for frame in scene.frames for key in frame.changes}
    drawn = {tree[1]["k"] for tree in shapes(scene) if "k" in tree[1]}
    visited = {str(Key(part, visit.node)) for visit in recording.backward for part in ("got", "right", "stop")}
    nodes = {str(Key("node", node.id)) for node in recording.nodes if not node.name.endswith("AccumulateGrad")}
    assert drawn - visited <= given
    assert nodes | {str(Key("saved", edge.id)) for edge in recording.saved} <= drawn


def test_a_frame_tells_only_what_changed(recording):
    """No frame repeats a state, which is a text: a scene grows with what happens, not with frames × nodes, and nothing moves."""
    states: dict[str, str] = {}
    for frame in build_scene(recording).frames:
        assert not [key for key, state in frame.changes.items() if states.get(key) == state]
        states |= frame.changes
    assert {str} == {type(state) for state in states.values()}


def test_drawings_hold_shapes_and_nothing_else(hostile):
    """The names of a program never become a tag or an attribute."""
    for tag, attributes, *_ in shapes(build_scene(hostile)):
        assert tag in TAGS
        assert not any(name.startswith("on") or name in ("href", "style") for name in attributes)


def test_predicting_stops_before_the_outcome(recording):
    """The prediction is asked for before every visit of backward and before the verdict."""
    scene = build_scene(recording, predict=True)

    assert scene.ask is not None
    assert all(frame.kind == "step" for frame in scene.frames[: scene.ask])
    assert scene.ask < len(scene.frames) - 1


def test_a_recording_without_a_step_still_has_a_verdict():
    """An empty program ends with its outcome, not with an error."""
    from autograder.tape.recording.schema import VERSION, Recording
    from autograder.tape.recording.verdict_types import Verdict

    empty = Recording(VERSION, "2.13.0", (), (), (), (), (), (), (), Verdict("correct"))

    assert ["end"] == [frame.kind for frame in build_scene(empty).frames]


def test_a_newer_or_cut_recording_is_refused_in_one_sentence(recorded):
    """An incomplete or newer recording is refused in a sentence with a solution."""
    text = to_json(recorded("correct"))
    newer = msgspec.json.encode(msgspec.json.decode(text) | {"version": 99})
    for broken, words in ((text[:300], "Record the program again"), (newer, "Update autograder")):
        with pytest.raises(RecordingError, match=words):
            from_json(broken)


@pytest.mark.parametrize(("got", "true", "same"), [
    pytest.param(1.0, 1.0 + 1e-8, True, id="rounding"),
    pytest.param(float("nan"), float("nan"), True, id="both not a number"),
    pytest.param(float("nan"), 1.0, False, id="one not a number"),
    pytest.param(float("inf"), -float("inf"), False, id="the other infinity"),
    pytest.param(None, 1.0, False, id="none arrived"),
])  # fmt: skip
def test_gradients_agree_or_differ(got, true, same):
    """Two elements agree to the accuracy of a float32; NaN agrees with NaN."""
    assert same is gradient_values.is_close(got, true)


@pytest.mark.parametrize(
    ("got", "true", "wrong"), [(None, [1.0, 2.0], 2), ([1.0, 2.0], [1.0, 3.0], 1), ([1.0], None, 0)]
)
def test_a_missing_gradient_is_wrong_in_each_element(got, true, wrong):
    """Each element that should have arrived is shown with its right value; without a right one, nothing is wrong."""
    gradient = Gradient(got, true)
    assert (wrong > 0) is gradient_values.is_wrong(gradient)
    assert wrong == sum(element.is_wrong for element in gradient_values.list_elements(gradient))


def test_a_live_picture_opens_at_the_point_unless_the_reader_is_asked(recorded):
    """It opens at the static picture's frame; at the first step if the reader is to find the outcome or the harmful line."""
    recording = recorded("silently_wrong")
    nameless = msgspec.structs.replace(recording.verdict, harms=())
    asked = build_scene(msgspec.structs.replace(recording, verdict=nameless))

    assert build_scene(recording).decisive == build_scene(recording).start > 0
    assert 0 == build_scene(recording, predict=True).start == asked.start


def test_a_long_gradient_lists_each_element_once(recorded):
    """Of 20 elements, the wrong one comes first, and the eleven after it are right."""
    recording = recorded("silently_wrong")
    gradients = {"w": Gradient([float(i) for i in range(20)], [float(i) for i in range(19)] + [0.5])}
    verdict = msgspec.structs.replace(recording.verdict, gradients=gradients)
    panel = draw_gradients(msgspec.structs.replace(recording, verdict=verdict)).shapes[0]
    rows = [tree for tree in panel[2:] if isinstance(tree, list) and tree[1].get("class", "").startswith("row")]

    assert ["w.grad[19]", *(f"w.grad[{i}]" for i in range(11))] == [row[2][2] for row in rows]
    assert "and 8 more, none of them wrong" == panel[-1][2]


def in_place_in_a_list():
    """A tensor that gets more names with every write, and another node each time."""
    state = torch.ones(2, requires_grad=True) * 1
    seen = []
    for _ in range(3):
        state += 1
        seen = [*seen, state]
    state.sum().backward()


def test_a_name_that_grows_never_meets_what_stands_beside_it():
    """Every block that shows a tensor's name is wide enough for the longest one that any frame gives it."""
    scene = build_scene(record(in_place_in_a_list))
    values = [shape for shape in shapes(scene) if "value" == shape[1].get("class")]
    assert len(values) >= 5
    for _, _, _field, name, size, *_ in values:
        longest = max(columns(frame.changes.get(name[1]["k"], "")) for frame in scene.frames)
        assert name[1]["x"] + longest * MONO <= size[1]["x"]
    assert max(len(frame.changes.get(values[-1][3][1]["k"], "")) for frame in scene.frames) > len("state, seen[0]")


def half_written():
    """Saves a view, writes a value computed from it into its base, and reads the view again."""
    x = torch.ones(2, 4, requires_grad=True)
    y = x.clone()
    kept = y[:, :2]
    y[:, 2:] *= kept.square()
    y[:, 2:] += kept * 3
    y.sum().backward()


def test_a_tensor_written_after_it_was_saved_turns_no_path_of_the_graph_around(monkeypatch):
    """`kept` has a new node that depends on the node that keeps it; still each node is below its inputs."""
    asked = []

    def place_blocks(sizes, links, sources):
        asked.append((links, layout.place_blocks(sizes, links, sources)))
        return asked[-1][1]

    monkeypatch.setattr(node_graph, "place_blocks", place_blocks)
    monkeypatch.setattr(folding, "LIMIT", 20)
    recording = record(half_written)
    build_scene(recording)
    placed = asked[0][1][0]
    makers = {node.id: [one for one in node.inputs if one is not None] for node in recording.nodes}
    below = [(Key("node", one), Key("node", node)) for node, inputs in makers.items() for one in inputs]
    drawn = [(upper, lower) for upper, lower in below if {upper, lower} <= placed.keys()]
    assert len(drawn) >= 6
    assert all(placed[upper].y < placed[lower].y for upper, lower in drawn)


def test_the_columns_of_gradients_keep_apart(recorded):
    """The longest words of both columns are next to each other: no gradient, and no recorded gradient."""
    recording = recorded("silently_wrong")
    gradients = {"body": Gradient(None, None), "w": Gradient([-0.0012345], [-123456.0])}
    verdict = msgspec.structs.replace(recording.verdict, gradients=gradients)
    panel = draw_gradients(msgspec.structs.replace(recording, verdict=verdict)).shapes[0]
    rows = [tree for tree in panel[2:] if isinstance(tree, list) and tree[1].get("class", "").startswith("row")]
    assert len(gradients) == len(rows)
    for _, _, _, got, right, *_ in rows:
        assert right[1]["x"] - columns(right[2]) * BOLD > got[1]["x"]


@st.composite
def graphs(draw):
    """Draw sizes and links of an acyclic graph."""
    count = draw(st.integers(1, 25))
    size = st.tuples(st.floats(60, 300), st.floats(20, 120))
    sizes = {f"n{i}": draw(size) for i in range(count)}
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    links = [(f"n{min(pair)}", f"n{max(pair)}") for pair in draw(st.lists(pairs, max_size=40)) if pair[0] != pair[1]]
    sources = {name for name in sizes if all(lower != name for _, lower in links)}
    return sizes, links, sources


@settings(deadline=None)  # the first example pays for loading igraph
@given(graphs())
def test_blocks_do_not_overlap(graph):
    """Any two blocks are apart, whatever their sizes."""
    placed, _ = place_blocks(*graph)
    for one, other in combinations(placed.values(), 2):
        beside = abs(one.x - other.x) >= (one.width + other.width) / 2 - 1e-6
        above = one.y + one.height <= other.y + 1e-6 or other.y + other.height <= one.y + 1e-6

        assert beside or above


@given(graphs())
def test_a_block_stands_below_its_makers(graph):
    """Gradient paths all point the same way: up."""
    placed, _ = place_blocks(*graph)

    assert all(placed[upper].y + placed[upper].height < placed[lower].y for upper, lower in graph[1])


mpl.use("Agg")


def test_versions_rise_where_a_counter_counted(recorded):
    """The counter of the preallocated output goes up by one at each of the loop's twelve writes."""
    axes = plots.plot_versions(recorded("loop"))
    line = next(line for line in axes.lines if line.get_label() == "out")

    assert (0, 12) == (min(line.get_ydata()), max(line.get_ydata()))
    assert 12 == sum(line.get_label() == "write, counted" for line in axes.lines)


def test_a_write_that_nobody_counted_is_marked(recorded):
    """The `.data` write is a cross on d's flat line."""
    axes = plots.plot_versions(recorded("silently_wrong"))
    line = next(line for line in axes.lines if line.get_label() == "d")

    assert {0} == set(line.get_ydata())
    assert {"write, counted", "write, not counted"} == {text.get_text() for text in axes.get_legend().get_texts()[-2:]}


def test_wrong_elements_stand_beside_the_line(recorded):
    """The wrong gradient is counted as wrong, the right one as right."""
    recording = recorded("silently_wrong")

    assert ["wrong: 1"] == [text.get_text() for text in plots.plot_gradients(recording, "w2").get_legend().get_texts()]
    assert ["right: 2"] == [text.get_text() for text in plots.plot_gradients(recording, "w1").get_legend().get_texts()]


def test_an_unknown_leaf_is_named(recorded):
    """The message names the leaves of the verdict."""
    with pytest.raises(KeyError, match="the verdict has w1, w2"):
        plots.plot_gradients(recorded("silently_wrong"), "w3")


def test_without_a_gradient_there_is_no_plot(recorded):
    """A run that raised has no gradients to compare."""
    with pytest.raises(ValueError, match="has no gradient to compare"):
        plots.plot_gradients(recorded("raises_backward"), "w2")


def test_losses_are_drawn_with_their_ends():
    """One line for each run, with different dashes; the legend has the last loss."""
    axes = plots.plot_losses({"as written": [1.0, 0.1], "as meant": [1.0, 0.01]})
    assert [[1.0, 0.1], [1.0, 0.01]] == [list(line.get_ydata()) for line in axes.lines]
    assert 2 == len({line.get_linestyle() for line in axes.lines})
    assert ["as written: 0.1 at the end", "as meant: 0.01 at the end"] == [
        t.get_text() for t in axes.get_legend().get_texts()
    ]


@pytest.mark.parametrize(
    ("fonts", "label", "told"),
    [(("DejaVu Serif",), "损失", "as written：最后是 0.1"), ((), "loss", "as written: 0.1 at the end")],
)
def test_a_plot_is_in_the_reader_s_language_where_a_font_has_its_letters(monkeypatch, fonts, label, told):
    """The words are Chinese and each text knows where to find letters; without a font they are English, and no empty boxes."""
    monkeypatch.setattr(plots, "font_families", lambda: fonts)
    with use_language("zh-CN"):
        axes = plots.plot_losses({"as written": [1.0, 0.1]})
    (text,) = axes.get_legend().get_texts()
    assert [label, told] == [axes.get_ylabel(), text.get_text()]
    assert all({*fonts} <= {*one.get_fontfamily()} for one in (axes.yaxis.label, text))


def test_a_plot_suits_a_light_and_a_dark_page():
    """The figure is transparent, and every text contrasts with white and with JupyterLab's dark background."""
    from matplotlib.colors import to_rgb, to_rgba
    from matplotlib.text import Text

    axes = plots.plot_losses({"as written": [1.0, 0.1]})
    assert 0 == to_rgba(axes.figure.get_facecolor())[3] == to_rgba(axes.get_facecolor())[3]
    for text in axes.findobj(Text):
        (grey,) = set(to_rgb(text.get_color()))
        light = ((grey + 0.055) / 1.055) ** 2.4
        assert min(1.05 / (light + 0.05), (light + 0.05) / 0.0556) > 4
