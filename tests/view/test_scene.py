"""The scene is what both the static picture and the widget draw: keys that exist, states that lead somewhere, no code."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from autograder.tape.recording.schema import RecordingError, from_json, to_json
from autograder.view.draw.svg import freeze
from autograder.view.scene.composition import Scene, build
from autograder.view.text import gradient_rows

TAGS = {"g", "rect", "path", "text", "tspan", "circle", "title"}


def shapes(scene: Scene) -> Iterator[list]:
    """Yields every shape of a scene."""

    def walk(tree: list) -> Iterator[list]:
        yield tree
        for child in tree[2:]:
            if isinstance(child, list):
                yield from walk(child)

    for drawing in [*scene.views, scene.memory, *filter(None, [scene.gradients])]:
        for tree in drawing.shapes:
            yield from walk(tree)


def test_every_key_of_a_drawing_gets_a_state(recording):
    """No block, row or text waits for a state that no frame gives (it would never be seen)."""
    scene = build(recording)
    given = {key for moment in scene.moments for key in moment.changes} | {"end"}
    drawn = {tree[1]["k"] for tree in shapes(scene) if "k" in tree[1]}
    visited = {f"{letter}{visit.node}" for visit in recording.backward for letter in "brx"}

    assert drawn - visited <= given


def test_every_block_that_appears_is_drawn(recording):
    """A node, a leaf in the graph or a kept tensor that a frame shows has a shape in some view."""
    scene = build(recording)
    drawn = {tree[1]["k"] for tree in shapes(scene) if "k" in tree[1]}
    nodes = {f"n{node.id}" for node in recording.nodes if not node.name.endswith("AccumulateGrad")}

    assert nodes <= drawn
    assert {f"e{edge.id}" for edge in recording.saved} <= drawn


def test_a_frame_changes_only_states(recording):
    """Positions stand in the drawings alone: what stays does not move from step to step."""
    for moment in build(recording).moments:
        assert all(isinstance(state, str) for state in moment.changes.values())


def test_a_frame_tells_only_what_changed(recording):
    """A change is a change: the data grow with what happens, not with frames × nodes."""
    states: dict[str, str] = {}
    for moment in build(recording).moments:
        assert not [key for key, state in moment.changes.items() if states.get(key) == state]
        states |= moment.changes


def test_drawings_hold_shapes_and_nothing_else(hostile):
    """Whatever a program is called, no name becomes a tag or an attribute."""
    for tag, attributes, *_ in shapes(build(hostile)):
        assert tag in TAGS
        assert not any(name.startswith("on") or name in ("href", "style") for name in attributes)


def test_the_harmed_tensor_changes_its_look(recorded):
    """From the harmful write on, the saved tensor is stale, or silent where no counter told."""
    for name, state in (("raises_backward", "on stale"), ("silently_wrong", "on silent")):
        recording = recorded(name)
        scene = build(recording)
        edge = f"e{recording.verdict.harms[0].edge}"

        assert "on" == freeze(scene, scene.telling - 1).states[edge]
        assert state == freeze(scene, scene.telling).states[edge]
        assert [(edge, "l0.9")] == scene.moments[scene.telling].links


def test_versions_tick_on_every_name_of_the_counter(recorded):
    """A write through the base ticks the view's number too; `.data` ticks its own and leaves the base's."""
    seen = freeze(build(recorded("views")), 5).states
    blind = freeze(build(recorded("silently_wrong")), 5).states

    assert {"v1"} == {state.split()[1] for key, state in seen.items() if key in ("m2c", "m3c")}
    assert ["v0", "v1"] == sorted(state.split()[1] for key, state in blind.items() if key in ("m3c", "m5c"))


def test_a_released_tensor_does_not_turn_stale_later(recorded):
    """After backward let go, the optimizer's writes into weights harm nothing."""
    scene = build(recorded("training"))
    states = freeze(scene, len(scene.moments) - 1).states

    assert {"on freed"} == {states[key] for key in states if key[0] == "e" and key[1:].isdigit()}
    assert "v2" in {state.split()[1] for key, state in states.items() if key.startswith("t") and key.endswith("c")}


def test_predicting_stops_before_the_outcome(recording):
    """The frame to predict before comes ahead of every visit and of the verdict."""
    scene = build(recording, predict=True)

    assert scene.ask is not None
    assert all(moment.kind == "step" for moment in scene.moments[: scene.ask])
    assert scene.ask < len(scene.moments) - 1


def test_a_recording_without_a_step_still_has_a_verdict():
    """An empty program ends with its outcome, not with an error."""
    from autograder.tape.recording.schema import VERSION, Recording
    from autograder.tape.recording.verdict_types import Verdict

    empty = Recording(VERSION, "2.13.0", (), (), (), (), (), (), (), Verdict("correct"))

    assert ["end"] == [moment.kind for moment in build(empty).moments]


def test_a_newer_or_cut_recording_is_refused_in_one_sentence(recorded):
    """What cannot be read never reaches the drawing."""
    text = to_json(recorded("correct"))
    newer = msgspec.json.encode(msgspec.json.decode(text) | {"version": 99})
    for broken, words in ((text[:300], "Record the program again"), (newer, "Update autograder")):
        with pytest.raises(RecordingError, match=words):
            from_json(broken)


@pytest.mark.parametrize(
    ("got", "true", "same"),
    [
        pytest.param(1.0, 1.0 + 1e-8, True, id="rounding"),
        pytest.param(float("nan"), float("nan"), True, id="both not a number"),
        pytest.param(float("nan"), 1.0, False, id="one not a number"),
        pytest.param(float("inf"), -float("inf"), False, id="the other infinity"),
        pytest.param(None, 1.0, False, id="none arrived"),
    ],
)
def test_gradients_agree_or_differ(got, true, same):
    """Two elements agree to the accuracy of a float32; NaN agrees with NaN."""
    assert same is gradient_rows.same(got, true)


def test_a_live_picture_opens_at_the_point_unless_the_reader_is_asked(recorded):
    """It opens where the static picture stands; at the first step where the outcome or the line that harmed is to be found."""
    recording = recorded("silently_wrong")
    nameless = msgspec.structs.replace(recording.verdict, harms=())
    asked = build(msgspec.structs.replace(recording, verdict=nameless))

    assert build(recording).telling == build(recording).start > 0
    assert 0 == build(recording, predict=True).start == asked.start
