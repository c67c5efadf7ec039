"""The graph pane: a view of the whole program, and a view of each fold's contents."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from itertools import pairwise

from autograder.locale.translations import translated
from autograder.tape.recording.schema import Node, SavedEdge
from autograder.view.scene.blocks import (
    NAME_MIDDLE,
    ROW_MIDDLE,
    VALUE,
    Block,
    draw_block,
    fold_block,
    node_block,
    tensor_block,
)
from autograder.view.scene.folding import Fold, FoldPlanner
from autograder.view.scene.layout import Placement, Point, place_blocks
from autograder.view.scene.recording_index import RecordingIndex
from autograder.view.shapes import SMALL, Drawing, Key, Shape, group, path
from autograder.view.text.naming import module_paths

MARGIN = 30  # pixels between the blocks and the ends of a view

SIDES = ((1, 1), (-1, -1), (1, 0), (-1, 0))
"""The sides at which the line of a saved tensor may leave its row and enter the block: 1 right, -1 left, 0 from below."""

Curve = tuple[Point, Point, Point, Point]  # a cubic Bézier curve: its start, two control points, its end


def draw_link(key: Key, upper: Placement, lower: Placement, bends: Sequence[Point], kind: str = "link") -> Shape:
    """Return a gradient's path between two blocks, with an arrow upwards, the direction of backward.

    It is vertical next to the blocks of a layer, and turns only between two layers, so that it crosses no text; `bends`
    are the ends of its vertical part in each layer. The key is that of the lower block.
    """
    reach = (lower.width - 30) / 2
    end = lower.x + max(-reach, min(reach, (upper.x - lower.x) * 0.4))
    reach = (upper.width - 30) / 2
    start = upper.x + max(-reach, min(reach, (lower.x - upper.x) * 0.2))
    top = upper.y + upper.height
    points = [(start, top + 5), (start, max(upper.floor, top + 5)), *bends, (end, lower.y)]
    route = f"M{start:.0f} {top + 5:.0f}"
    for (x1, y1), (x2, y2) in pairwise(points):
        middle = (y1 + y2) / 2
        route += (
            f"L{x2:.0f} {y2:.0f}" if x1 == x2 else f"C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}"
        )
    arrow = f"M{start - 4:.0f} {top + 9:.0f}L{start:.0f} {top + 2:.0f}L{start + 4:.0f} {top + 9:.0f}z"
    return group(path(route), path(arrow, kind="arrow"), kind=kind, k=key)


def draw_pointer(edge: SavedEdge, block: Placement, height: float) -> Shape:
    """Return the first part of the arrow to the line that modified a saved tensor: from its row to the left end of the graph.

    It is to the left of its block if no other block is there, else in the space above the layer.
    """
    left, turns = block.x - block.width / 2, []
    if not block.is_first:
        turns = [(left - 10, height), (left - 10, block.y - 8)]
    points = [(left + 4, height), *turns, (-MARGIN, turns[-1][1] if turns else height)]
    route = "M" + "L".join(f"{x:.0f} {y:.0f}" for x, y in points)
    return group(path(route), kind="exit", k=Key("saved", edge.id))


def _curve(below: Placement, above: Placement, start: float, end: float, side: int, entry: int) -> Curve:
    """Return the curve that leaves one block at `side` and enters another at `entry` (see SIDES)."""
    x, to = below.x + side * below.width / 2, above.x + entry * above.width / 2
    if entry:
        out = max(side * x, side * to) * side + side * 22
        return (x, start), (out, start), (out, end), (to, end)
    reach, bottom = above.width / 2 - 14, above.y + above.height
    to = max(above.x - reach, min(above.x + reach, x + side * 18))
    return (x, start), (x + side * 26, start), (to, bottom + 40), (to, bottom)


def _cost(curve: Curve, others: Collection[Placement]) -> float:
    """Return the cost of a curve: the number of points, of eleven, that are inside another block, then its length."""
    (x1, y1), (x2, y2), (x3, y3), (x4, y4) = curve
    hidden = 0
    for step in range(1, 12):
        t = step / 12
        u = 1 - t
        x = u**3 * x1 + 3 * u * u * t * x2 + 3 * u * t * t * x3 + t**3 * x4
        y = u**3 * y1 + 3 * u * u * t * y2 + 3 * u * t * t * y3 + t**3 * y4
        hidden += sum(abs(x - o.x) < o.width / 2 + 4 and o.y - 4 < y < o.y + o.height + 4 for o in others)
    left = 8 * (x2 < x1)  # the arrow to the line of code leaves on this side
    return hidden * 1000 + left + abs(x1 - x2) + abs(x2 - x3) + abs(x3 - x4) + abs(y1 - y4)


MOST_LEAVES = 20  # the maximum number of leaves in the view of the whole program, whether a node uses them or not
MOST_DRAWN = 300  # the number of nodes from which on no further fold can be opened
MOST_KEPT = 4  # the maximum number of nodes that are kept out of folds

Link = tuple[Key, Key]
SavedLine = tuple[SavedEdge, Key, Key]  # (saved edge, block of its tensor, block of its node)


class NodeGraph:
    """All views of a recording's graph."""

    def __init__(self, index: RecordingIndex):
        self.index = index
        self.rows: dict[int, list[SavedEdge]] = {}
        for edge in index.recording.saved:
            self.rows.setdefault(edge.node, []).append(edge)
        step_of_node = {made: step.index for step in index.recording.steps for made in step.nodes}
        inner = (node for node in index.recording.nodes if node.id in index.shown and node.id not in index.leaves)
        nodes = sorted(inner, key=lambda node: (step_of_node.get(node.id, 0), node.id))
        calling = {visit.step for visit in index.recording.backward}
        calls = [step.index for step in index.recording.steps if step.index in calling]
        planner = FoldPlanner(
            self._nodes_to_keep(),
            step_of_node,
            {node.id: bisect_left(calls, step_of_node.get(node.id, 0)) + 1 for node in nodes},
            module_paths(nodes, index.layers),
        )
        self.views: list[Drawing] = []
        # The contents of each view and the number of the view with its fold; drawing a view adds those of its folds.
        self._contents: list[tuple[Fold, int | None]] = [(Fold(translated("whole program"), planner.plan(nodes)), None)]
        # node → the folds that contain it, as the numbers of the views that they open
        self.folds_around: dict[int, list[int]] = {}
        self.capacity: dict[int, int] = {}  # node → the number of characters of a gradient that fit into its block
        self.path_to_loss = self._path_to_loss()  # the decisive node and the nodes between it and the loss
        self._drawn = self._closed = 0
        for number, (view, parent) in enumerate(self._contents):
            self.views.append(self._draw(number, view, parent))

    def _nodes_to_keep(self) -> set[int]:
        """Return the nodes that a fold must not hide: those that saved the decisive memory, that computed it, or that raised."""
        kept: dict[int, None] = {}
        edges = [self.index.playback.saved[edge] for edge in self.index.focus]
        for edge in edges:
            if edge.storage == edges[0].storage:
                maker = self.index.block_of.get(edge.id)
                kept |= dict.fromkeys([edge.node, *([maker.number] if maker and maker.part == "node" else [])])
        raised = [visit.node for visit in self.index.recording.backward if visit.status == "raised"]
        return set([*kept, *raised][:MOST_KEPT])

    def _path_to_loss(self) -> set[int]:
        """Return the nodes between the decisive node and the loss, and the decisive node."""
        path = {self.index.playback.saved[edge].node for edge in self.index.focus[:1]}
        for node in sorted(self.index.recording.nodes, key=lambda node: node.id):
            if not path.isdisjoint(node.inputs):
                path.add(node.id)
        return path

    def _draw(self, number: int, view: Fold, parent: int | None) -> Drawing:
        """Return the drawing of a view: create its blocks, place them and draw them."""
        blocks, owners = self._blocks(number, view)
        links = self._links(view, owners, blocks)
        keys = {block.key for block in blocks}
        saved = [line for line in self._saved_lines(blocks, owners) if line[1] in keys]
        sizes = {block.key: (block.width(self.index), block.height(self.index)) for block in blocks}
        sources = [block.key for block in blocks if block.key.part == "tensor"]
        # A tensor that was modified after it was saved is shown at its new node, which may be a successor of the saving node.
        order = {key: place for place, key in enumerate(sizes)}
        kept = [(tensor, node) for _, tensor, node in saved if order[tensor] < order[node]]
        placed, bends = place_blocks(sizes, [*links, *kept], sources)
        path_to_loss = {owners[Key("node", node.id)] for node in view.nodes if node.id in self.path_to_loss}
        shapes = []
        for upper, key in links:
            kind = "link way" if {upper, key} <= path_to_loss else "link"
            shapes.append(draw_link(key, placed[upper], placed[key], bends.get((upper, key), []), kind))
        shapes += [self._draw_saved(line, placed, {block.key: block for block in blocks}) for line in saved]
        for block in blocks:
            spot = placed[block.key]
            rows = [(edge, top) for edge, top in block.row_tops(self.index) if edge.id in self.index.harmed]
            shapes += [draw_pointer(edge, spot, spot.y + top + ROW_MIDDLE) for edge, top in rows]
            if block.gradient is not None:
                self.capacity[block.gradient] = int((spot.width - 20) / SMALL)
        for block in blocks:
            spot = placed[block.key]
            shapes.append(draw_block(block, self.index, spot.x - spot.width / 2, spot.y, spot.width, spot.height))
        width = max((p.x + p.width / 2 for p in placed.values()), default=120) + 2 * MARGIN
        height = max((p.y + p.height for p in placed.values()), default=40) + 2 * MARGIN
        return Drawing(-MARGIN, -MARGIN, width, height, shapes, view.title, parent)

    def _blocks(self, number: int, view: Fold) -> tuple[list[Block], dict[Key, Key]]:
        """Return a view's blocks and, for each node's key, the key of its block; add a view for each fold."""
        blocks: list[Block] = []
        owners: dict[Key, Key] = {}
        for entry in view.inside:
            if isinstance(entry, Fold):
                inner = len(self._contents)
                if self._drawn < MOST_DRAWN:
                    self._drawn += sum(isinstance(item, Node) for item in entry.inside)
                    self._contents.append((entry, number))
                else:
                    self._closed += 1
                    inner = -self._closed
                blocks.append(fold_block(inner, entry))
                for node in entry.nodes:
                    self.folds_around.setdefault(node.id, []).append(inner)
                    owners[Key("node", node.id)] = blocks[-1].key
            else:
                blocks.append(node_block(entry, self.index, self.rows.get(entry.id, [])))
                owners[blocks[-1].key] = blocks[-1].key
        return [*self._tensor_blocks(view, is_whole=number == 0), *blocks], owners

    def _tensor_blocks(self, view: Fold, is_whole: bool) -> list[Block]:
        """Return the blocks of the leaves and inputs that a view's nodes use; the whole program without folds also shows unused leaves."""
        wanted: dict[int, None] = {}
        if is_whole and not any(isinstance(entry, Fold) for entry in view.inside):
            leaves = [t.id for t in self.index.recording.tensors if t.kind in ("leaf", "parameter")]
            wanted |= dict.fromkeys(t for t in leaves[:MOST_LEAVES] if Key("tensor", t) in self.index.names)
        for entry in view.inside:
            if isinstance(entry, Node):
                wanted |= dict.fromkeys(self.index.leaves[i] for i in entry.inputs if i in self.index.leaves)
                shown = (self.index.block_of.get(edge.id) for edge in self.rows.get(entry.id, []))
                wanted |= dict.fromkeys(block.number for block in shown if block and block.part == "tensor")
        return [tensor_block(self.index.playback.tensors[tensor], self.index) for tensor in wanted]

    def _links(self, view: Fold, owners: dict[Key, Key], blocks: list[Block]) -> list[Link]:
        """Return the pairs of blocks between which gradients flow; add a stub for each node outside the fold.

        A node's block is that of its leaf, its own, or that of its fold; a stub has the name of its tensor, else of its node.
        """
        links: dict[Link, None] = {}
        keys = {block.key for block in blocks}
        for node in view.nodes:
            lower = owners[Key("node", node.id)]
            for source in node.inputs:
                if source is None:
                    continue
                key, stub = Key("node", source), Key("outside", source)
                leaf = self.index.leaves.get(source)
                upper = owners.get(key, stub) if leaf is None else Key("tensor", leaf)
                if upper == stub and upper not in keys:
                    keys.add(upper)
                    record = self.index.playback.nodes.get(source)
                    name = self.index.names.get(key) or (record.name if record else str(source))
                    blocks.insert(0, Block(upper, translated("from outside: {name}", name=name), kind="outside"))
                if upper != lower and upper in keys:
                    links[(upper, lower)] = None
        return list(links)

    def _saved_lines(self, blocks: list[Block], owners: dict[Key, Key]) -> list[SavedLine]:
        """Return each saved tensor of a view whose block is known; that block may be in another view."""
        known = [(edge, self.index.block_of[edge.id], block.key)
                 for block in blocks for edge in block.rows if edge.id in self.index.block_of]  # fmt: skip
        return [(edge, owners.get(shown, shown), node) for edge, shown, node in known]

    def _draw_saved(self, line: SavedLine, placed: dict[Key, Placement], blocks: dict[Key, Block]) -> Shape:
        """Return the line from a saved tensor's row to the tensor."""
        edge, tensor, node = line
        below, above = placed[node], placed[tensor]
        row = next(top for row, top in blocks[node].row_tops(self.index) if row.id == edge.id)
        start, end = below.y + row + ROW_MIDDLE, above.y + above.height - VALUE + NAME_MIDDLE
        between = [spot for key, spot in placed.items() if key not in (tensor, node)]
        between = [spot for spot in between if spot.y < start and spot.y + spot.height > above.y]
        curves = [_curve(below, above, start, end, side, entry) for side, entry in SIDES]
        # The block is the same one if a node saved its own result.
        best = curves[0] if below is above else min(curves, key=lambda curve: _cost(curve, between))
        (x1, y1), (x2, y2), (x3, y3), (x4, y4) = best
        route = f"M{x1:.0f} {y1:.0f}C{x2:.0f} {y2:.0f} {x3:.0f} {y3:.0f} {x4:.0f} {y4:.0f}"
        return group(path(route), kind="keep", k=Key("saved", edge.id), s=edge.storage)
