"""Where blocks stand: layers by igraph's Sugiyama, then true widths and heights, so that nothing overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType

GAP_X, GAP_Y = 30.0, 46.0
SWEEPS = 6


@dataclass
class Placed:
    """One block's size, and its centre (x) and top (y) once it stands."""

    width: float
    height: float
    x: float = 0.0
    y: float = 0.0
    layer: int = 0


def library() -> ModuleType:
    """Returns igraph. It imports matplotlib, where that is installed: 0.4 s, which only those who draw should wait for."""
    import igraph

    return igraph


def place(
    sizes: dict[str, tuple[float, float]],
    links: Sequence[tuple[str, str]],
    sources: set[str],
) -> tuple[dict[str, Placed], dict[tuple[str, str], list[tuple[float, float]]]]:
    """Returns where each block stands, in pixels from the top left, and the points that each long link passes.

    Args:
        sizes: block → (width, height), in the order in which the program made them.
        links: pairs (upper block, lower block), without a cycle.
        sources: blocks that move down to stand right above the first block that uses them.
    """
    blocks: dict[str, Placed] = {name: Placed(*size) for name, size in sizes.items()}
    links = list(dict.fromkeys((upper, lower) for upper, lower in links if upper != lower))
    _layers(blocks, links, sources)
    chains = {link: _chain(link, blocks) for link in links}
    segments = list(dict.fromkeys(pair for chain in chains.values() for pair in pairwise(chain)))
    rows = _order(blocks, segments)
    _columns(blocks, rows, segments)
    _heights(blocks, rows)
    real = {name: block for name, block in blocks.items() if name in sizes}
    bends = {link: [(blocks[p].x, blocks[p].y) for p in chain[1:-1]] for link, chain in chains.items()}
    return real, bends


def _layers(blocks: dict[str, Placed], links: list[tuple[str, str]], sources: set[str]) -> None:
    """Gives each block the layer below its lowest maker; sources move down to their first user."""
    below: dict[str, list[str]] = {name: [] for name in blocks}
    waits = dict.fromkeys(blocks, 0)
    for upper, lower in links:
        below[upper].append(lower)
        waits[lower] += 1
    ready = [name for name, count in waits.items() if not count]
    for name in ready:
        for lower in below[name]:
            blocks[lower].layer = max(blocks[lower].layer, blocks[name].layer + 1)
            waits[lower] -= 1
            if not waits[lower]:
                ready.append(lower)
    for name in sources:
        if below[name]:
            blocks[name].layer = min(blocks[lower].layer for lower in below[name]) - 1


def _chain(link: tuple[str, str], blocks: dict[str, Placed]) -> list[str]:
    """Returns upper, one bend for each layer between, lower; adds the bends to `blocks`."""
    upper, lower = link
    bends: list[str] = []
    for layer in range(blocks[upper].layer + 1, blocks[lower].layer):
        bend = f"{upper} {lower} {layer}"
        blocks[bend] = Placed(8.0, 0.0, layer=layer)
        bends.append(bend)
    return [upper, *bends, lower]


def _order(blocks: dict[str, Placed], segments: list[tuple[str, str]]) -> list[list[str]]:
    """Returns the rows from top to bottom, each from left to right, with few crossings."""
    names = list(blocks)
    number = {name: i for i, name in enumerate(names)}
    graph = library().Graph(len(names), [(number[a], number[b]) for a, b in segments], directed=True)
    spots = graph.layout_sugiyama(layers=[block.layer for block in blocks.values()], maxiter=100)
    rows: dict[int, list[str]] = {}
    for i, name in enumerate(names):
        blocks[name].x = spots[i][0]
        rows.setdefault(blocks[name].layer, []).append(name)
    return [sorted(rows[layer], key=lambda name: blocks[name].x) for layer in sorted(rows)]


def _columns(blocks: dict[str, Placed], rows: list[list[str]], segments: list[tuple[str, str]]) -> None:
    """Sets each centre near the middle of its neighbours, in the rows' order and without overlap."""
    near: dict[str, list[str]] = {name: [] for name in blocks}
    for upper, lower in segments:
        near[upper].append(lower)
        near[lower].append(upper)
    for row in rows:
        _spread(blocks, row, [blocks[name].x * 90 for name in row])
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 else rows[::-1]:
            wish = [sum(blocks[n].x for n in near[m]) / len(near[m]) if near[m] else blocks[m].x for m in row]
            _spread(blocks, row, wish)
    left = min((block.x - block.width / 2 for block in blocks.values()), default=0)
    for block in blocks.values():
        block.x -= left


def _spread(blocks: dict[str, Placed], row: list[str], wish: list[float]) -> None:
    """Places a row as near to the wished centres as its widths allow (pool adjacent violators)."""
    offset, offsets = 0.0, []
    for i, name in enumerate(row):
        if i:
            offset += (blocks[row[i - 1]].width + blocks[name].width) / 2 + GAP_X
        offsets.append(offset)
    pools: list[list[float]] = []
    for want, shift in zip(wish, offsets, strict=True):
        pools.append([want - shift, 1])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            mean, count = pools.pop()
            before = pools[-1]
            before[0] = (before[0] * before[1] + mean * count) / (before[1] + count)
            before[1] += count
    starts = [mean for mean, count in pools for _ in range(int(count))]
    for name, start, shift in zip(row, starts, offsets, strict=True):
        blocks[name].x = start + shift


def _heights(blocks: dict[str, Placed], rows: list[list[str]]) -> None:
    """Stacks the rows; a block hangs from its row's top, a bend passes at the row's middle."""
    top = 0.0
    for row in rows:
        height = max(blocks[name].height for name in row)
        for name in row:
            blocks[name].y = top if blocks[name].height else top + height / 2
        top += height + GAP_Y
