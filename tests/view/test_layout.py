"""Blocks never overlap, and each is below those that it came from."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.view.scene.layout import place_blocks


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


@given(graphs())
def test_the_same_graph_stands_the_same(graph):
    """Two drawings of a recording have the same positions."""
    assert place_blocks(*graph) == place_blocks(*graph)
