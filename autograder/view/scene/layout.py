"""The layout of the graph: layers and their order by igraph's Sugiyama layout, then positions without overlap."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise
from types import ModuleType
from typing import TypeVar

from autograder.requirements import import_without

GAP_X, GAP_Y = 30.0, 40.0  # pixels between two blocks side by side, and between two layers
SWEEPS = 6  # the number of passes that align the layers with their neighbors, alternately upwards and downwards

Name = TypeVar("Name", bound=Hashable)
Point = tuple[float, float]
Link = tuple[Hashable, Hashable]  # (upper block, lower block)


@dataclass
class Placement:
    """A block's size, its layer, and its position: center (x) and top (y), all in pixels."""

    width: float
    height: float
    x: float = 0.0
    y: float = 0.0
    layer: int = 0
    floor: float = 0.0  # the lower end of its layer. Between that and the next layer there are no blocks
    is_first: bool = True  # whether no other block of its layer is to the left of it


def load_igraph(without_plots: bool = False) -> ModuleType:
    """Return igraph, imported at the first call; `without_plots` imports it as if matplotlib were not installed.

    igraph 1.0 imports matplotlib if it is installed (`igraph/drawing/matplotlib/utils.py`), which takes most of a
    second.
    """
    if without_plots:
        import_without("matplotlib", "igraph", ready="igraph")
    import igraph

    return igraph


def place_blocks(
    sizes: dict[Name, Point], links: Iterable[tuple[Name, Name]], sources: Iterable[Name]
) -> tuple[dict[Name, Placement], dict[tuple[Name, Name], list[Point]]]:
    """Return the placement of each block, and the bends of each long link: the ends of its vertical part in each layer.

    The sizes are (width, height) in pixels, in the order of creation; links are (upper block, lower block), without a
    cycle. Sources are placed in the layer above the first block that uses them, instead of the topmost layer.
    """
    blocks: dict[Hashable, Placement] = {name: Placement(*size) for name, size in sizes.items()}
    links = list(dict.fromkeys((upper, lower) for upper, lower in links if upper != lower))
    _layers(blocks, links, sources)
    chains = {link: _chain(link, blocks) for link in links}
    segments = list(dict.fromkeys(pair for chain in chains.values() for pair in pairwise(chain)))
    rows = _order(blocks, segments)
    _columns(blocks, rows, segments)
    _heights(blocks, rows)
    real = {name: blocks[name] for name in sizes}
    bends = {
        link: [(blocks[p].x, y) for p in chain[1:-1] for y in (blocks[p].y, blocks[p].floor)]
        for link, chain in chains.items()
    }
    return real, bends


def _layers(blocks: dict[Hashable, Placement], links: Sequence[Link], sources: Iterable[Hashable]) -> None:
    """Set each block's layer: one below the lowest of its predecessors; for sources, one above the first block that uses them."""
    above: dict[Hashable, list[Hashable]] = {name: [] for name in blocks}
    below: dict[Hashable, list[Hashable]] = {name: [] for name in blocks}
    for upper, lower in links:
        above[lower].append(upper)
        below[upper].append(lower)
    for name in TopologicalSorter(above).static_order():
        blocks[name].layer = max((blocks[upper].layer + 1 for upper in above[name]), default=0)
    for name in sources:
        if below[name]:
            blocks[name].layer = min(blocks[lower].layer for lower in below[name]) - 1


def _chain(link: Link, blocks: dict[Hashable, Placement]) -> list[Hashable]:
    """Return the upper block, a bend for each layer between, and the lower block; add the bends to `blocks`."""
    upper, lower = link
    bends: list[Hashable] = []
    for layer in range(blocks[upper].layer + 1, blocks[lower].layer):
        bend = (upper, lower, layer)
        blocks[bend] = Placement(8.0, 0.0, layer=layer)
        bends.append(bend)
    return [upper, *bends, lower]


def _order(blocks: dict[Hashable, Placement], segments: list[Link]) -> list[list[Hashable]]:
    """Return the layers from top to bottom, each from left to right in an order with few crossings."""
    names = list(blocks)
    number = {name: i for i, name in enumerate(names)}
    graph = load_igraph().Graph(len(names), [(number[a], number[b]) for a, b in segments], directed=True)
    spots = graph.layout_sugiyama(layers=[block.layer for block in blocks.values()], maxiter=100)
    rows: dict[int, list[Hashable]] = {}
    for i, name in enumerate(names):
        blocks[name].x = spots[i][0]
        rows.setdefault(blocks[name].layer, []).append(name)
    return [sorted(rows[layer], key=lambda name: blocks[name].x) for layer in sorted(rows)]


def _columns(blocks: dict[Hashable, Placement], rows: list[list[Hashable]], segments: list[Link]) -> None:
    """Set each center near the mean of its neighbors' centers, without changing the order in a row and without overlap."""
    near: dict[Hashable, list[Hashable]] = {name: [] for name in blocks}
    for upper, lower in segments:
        near[upper].append(lower)
        near[lower].append(upper)
    for row in rows:
        _spread(blocks, row, [blocks[name].x * 90 for name in row])
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 else rows[::-1]:
            target_centers = [sum(blocks[n].x for n in near[m]) / len(near[m]) if near[m] else blocks[m].x for m in row]
            _spread(blocks, row, target_centers)
    left = min((block.x - block.width / 2 for block in blocks.values()), default=0)
    for block in blocks.values():
        block.x -= left


def _spread(blocks: dict[Hashable, Placement], row: list[Hashable], target_centers: list[float]) -> None:
    """Set a row's centers as close to the desired ones as its widths allow: isotonic regression by pooling adjacent violators."""
    offset, offsets = 0.0, []
    for i, name in enumerate(row):
        if i:
            offset += (blocks[row[i - 1]].width + blocks[name].width) / 2 + GAP_X
        offsets.append(offset)
    pools: list[list[float]] = []
    for target, shift in zip(target_centers, offsets, strict=True):
        pools.append([target - shift, 1])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            mean, count = pools.pop()
            before = pools[-1]
            before[0] = (before[0] * before[1] + mean * count) / (before[1] + count)
            before[1] += count
    starts = [mean for mean, count in pools for _ in range(int(count))]
    for name, start, shift in zip(row, starts, offsets, strict=True):
        blocks[name].x = start + shift


def _heights(blocks: dict[Hashable, Placement], rows: list[list[Hashable]]) -> None:
    """Set each top and floor: blocks and bends are aligned at the top of their row."""
    top = 0.0
    for row in rows:
        height = max(blocks[name].height for name in row)
        solid = False
        for name in row:
            blocks[name].y, blocks[name].floor, blocks[name].is_first = top, top + height, not solid
            solid = solid or blocks[name].height > 0
        top += height + GAP_Y
