"""Folds lose no node and hide none that has to be seen; a key's text names one part of the picture."""

from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.tape.recording.schema import Node
from autograder.tape.recording.verdict_types import Place
from autograder.view.scene.folding import CHUNKS, LIMIT, MAX_BLOCKS, Fold, FoldPlanner
from autograder.view.shapes import Key, Label, Part

lines = st.lists(st.integers(1, 12), max_size=300)
scopes = st.lists(st.sampled_from([(), ("net",), ("net", "0"), ("net", "1")]), min_size=300, max_size=300)


def nodes(at: list[int], within: list[tuple[str, ...]]) -> list[Node]:
    """Return nodes made at lines, within scopes."""
    return [Node(i, "AddBackward0", (), None, Place("f", line, ""), within[i]) for i, line in enumerate(at)]


@settings(deadline=None)  # a busy machine may take longer than 200 ms
@given(lines, scopes, st.sets(st.integers(0, 299), max_size=3))
def test_every_node_is_somewhere_once(at, within, keep):
    """Opening every fold shows each node exactly once, in the order of creation."""
    given_nodes = nodes(at, within)
    folded = FoldPlanner(keep, {node.id: node.id for node in given_nodes}).plan(given_nodes)

    assert given_nodes == Fold("", folded).nodes


@settings(deadline=None)  # a busy machine may take longer than 200 ms
@given(lines, scopes, st.sets(st.integers(0, 299), max_size=3))
def test_what_is_kept_stays_in_sight(at, within, keep):
    """A node with a harmed saved tensor is never inside a fold at the top."""
    given_nodes = nodes(at, within)
    folded = FoldPlanner(keep, {node.id: node.id for node in given_nodes}).plan(given_nodes)
    hidden = {node.id for entry in folded if isinstance(entry, Fold) for node in entry.nodes}

    assert not keep & hidden


def test_a_thousand_rounds_open_in_a_few_clicks():
    """A loop of 1,000 nodes shows a dozen blocks, and no fold inside shows more than LIMIT + 2."""
    loop = nodes([1, 2, 3, 4] * 250, [()] * 1000)
    folded = FoldPlanner(set(), {node.id: node.id for node in loop}).plan(loop)

    assert ["iterations 2–249 of lines 1–4"] == [entry.title for entry in folded if isinstance(entry, Fold)]
    assert len(folded) <= CHUNKS + 2
    assert deepest(folded) <= LIMIT + 2


def test_a_node_of_a_late_round_stays_in_sight():
    """A training loop of 60 rounds that goes wrong in round 51 shows the nodes to keep there, and folds the others."""
    loop = nodes([1, 2, 3, 4, 5, 6, 7, 8] * 60, [()] * 480)
    keep = {50 * 8 + 2, 50 * 8 + 3}
    folded = FoldPlanner(keep, {node.id: node.id for node in loop}).plan(loop)

    assert loop == Fold("", folded).nodes
    assert keep <= {entry.id for entry in folded if isinstance(entry, Node)}
    assert len(folded) <= MAX_BLOCKS + len(keep)


def deepest(entries: list) -> int:
    """Return the largest number of blocks that one opened fold shows."""
    return max([len(entries), *(deepest(entry.inside) for entry in entries if isinstance(entry, Fold))])


def test_a_short_program_does_not_fold():
    """Up to LIMIT nodes all are shown."""
    short = nodes([1, 2] * (LIMIT // 2), [()] * 300)

    assert short == FoldPlanner(set(), {}).plan(short)


numbers, labels = st.integers(0, 12), st.sampled_from(get_args(Label))
names = st.sampled_from([part for part in get_args(Part) if part != "line"])
parts = st.builds(Key, names, numbers, labels, st.just(0))
lines_of_keys = st.builds(Key, st.just("line"), numbers, st.just(""), numbers)


@given(st.lists(parts | lines_of_keys, max_size=30))
def test_different_keys_have_different_texts(keys):
    """No two parts of a picture share a state."""
    assert len(set(keys)) == len(set(map(str, keys)))
