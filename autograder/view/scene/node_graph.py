"""The graph pane: one view of the whole program, and one more for each fold that opens."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from autograder.tape.recording.schema import Node, SavedEdge
from autograder.view.scene.blocks import Block, Facts, draw, fold_block, kept_by, node_block, tensor_block
from autograder.view.scene.folding import Fold, Outline
from autograder.view.scene.layout import Placed, place
from autograder.view.shapes import SMALL, Shape, group, path, text

MARGIN = 26

SIDES = ((1, 1), (-1, -1), (1, 0), (-1, 0))
"""Where a saved tensor's line may leave its row and enter its tensor's block: 1 right, -1 left, 0 from below."""

Route = list[tuple[float, float]]


@dataclass
class View:
    """One picture of the graph: everything, or the inside of a fold; `parent` is the view it was opened from."""

    title: str
    parent: int | None
    entries: list[Node | Fold]
    width: float = 0.0
    height: float = 0.0
    tree: list[Shape] = field(default_factory=list)


class NodeGraph:
    """All views of a recording's graph."""

    def __init__(self, facts: Facts):
        """Decides what folds, and draws each view."""
        self.facts = facts
        self.rows = kept_by(facts.recording)
        born = {made: step.index for step in facts.recording.steps for made in step.nodes}
        nodes = sorted(
            (node for node in facts.recording.nodes if node.id not in facts.fills),
            key=lambda node: (born.get(node.id, 0), node.id),
        )
        self.views = [View("whole program", None, Outline(self._important(), born).of(nodes))]
        self.folds: dict[int, Fold] = {}
        self.inside: dict[int, list[int]] = {}
        self.room: dict[int, int] = {}
        """Node → the characters that fit above its block, up to the next block."""
        for number, view in enumerate(self.views):
            self._draw(number, view)

    def _important(self) -> set[int]:
        """Returns the nodes that must stay in sight: those with a harmed saved tensor, and those that made it."""
        found: set[int] = set()
        for edge in self.facts.harmed:
            found.add(self.facts.playback.saved[edge].node)
            maker = self.facts.shown_in.get(edge, "")
            if maker.startswith("n"):
                found.add(int(maker[1:]))
        return found if len(found) <= 12 else set(sorted(found)[:12])

    def _draw(self, number: int, view: View) -> None:
        """Builds a view's blocks, places them and draws them."""
        blocks, owner = self._blocks(view)
        sight = {block.key for block in blocks}
        links = self._links(view, owner, sight, blocks)
        keeps = [(edge, owner.get(self.facts.shown_in[edge.id], self.facts.shown_in[edge.id]), block.key)
                 for block in blocks for edge in block.rows if edge.id in self.facts.shown_in]  # fmt: skip
        keeps = [keep for keep in keeps if keep[1] in sight]
        sizes = {block.key: (block.width(self.facts), block.height(self.facts)) for block in blocks}
        loose = {block.key for block in blocks if block.key.startswith("t")}
        placed, bends = place(sizes, [*links, *((target, keeper) for _, target, keeper in keeps)], loose)
        shapes = [self._link(link, bends.get(link, []), placed) for link in links]
        shapes += [self._keep(keep, placed, {block.key: block for block in blocks}) for keep in keeps]
        shapes += [
            draw(b, self.facts, placed[b.key].x - placed[b.key].width / 2, placed[b.key].y, sizes[b.key])
            for b in blocks
        ]
        shapes += [shape for block in blocks for shape in self._gradient(block, placed)]
        view.tree = shapes
        view.width = max((p.x + p.width / 2 for p in placed.values()), default=120) + 2 * MARGIN
        view.height = max((p.y + p.height for p in placed.values()), default=40) + 2 * MARGIN

    def _blocks(self, view: View) -> tuple[list[Block], dict[str, str]]:
        """Returns a view's blocks, and for each node's key the key of the block that stands for it."""
        blocks: list[Block] = []
        owner: dict[str, str] = {}
        for entry in view.entries:
            if isinstance(entry, Fold):
                number = len(self.views)
                self.views.append(View(entry.title, self.views.index(view), entry.inside))
                self.folds[number] = entry
                blocks.append(fold_block(number, entry))
                owner |= {f"n{node.id}": f"f{number}" for node in entry.nodes}
                for node in entry.nodes:
                    self.inside.setdefault(node.id, []).append(number)
            else:
                blocks.append(node_block(entry, self.facts, self.rows.get(entry.id, [])))
                owner[f"n{entry.id}"] = f"n{entry.id}"
        return [*self._tensors(view, owner), *blocks], owner

    def _tensors(self, view: View, owner: dict[str, str]) -> list[Block]:
        """Returns the blocks of leaves and inputs that a view's nodes use; the whole program shows every leaf."""
        wanted: dict[int, None] = {}
        if view.parent is None:
            leaves = [t.id for t in self.facts.recording.tensors if t.kind in ("leaf", "parameter")]
            wanted |= dict.fromkeys(leaf for leaf in leaves[:40] if f"t{leaf}" in self.facts.names)
        for entry in view.entries:
            for node in entry.nodes if isinstance(entry, Fold) else [entry]:
                wanted |= dict.fromkeys(self.facts.fills[i] for i in node.inputs if i in self.facts.fills)
                if not isinstance(entry, Fold):
                    shown = (self.facts.shown_in.get(edge.id, "") for edge in self.rows.get(node.id, []))
                    wanted |= dict.fromkeys(int(key[1:]) for key in shown if key.startswith("t"))
        return [tensor_block(self.facts.playback.tensors[tensor]) for tensor in wanted]

    def _links(self, view: View, owner: dict[str, str], sight: set[str], blocks: list[Block]) -> list[tuple[str, str]]:
        """Returns the pairs of blocks between which gradient flows; what comes from outside a fold gets a stub."""
        links: dict[tuple[str, str], None] = {}
        for entry in view.entries:
            for node in entry.nodes if isinstance(entry, Fold) else [entry]:
                for source in node.inputs:
                    if source is None:
                        continue
                    upper = f"t{self.facts.fills[source]}" if source in self.facts.fills else owner.get(f"n{source}")
                    if upper is None:
                        upper = f"o{source}"
                        if upper not in sight:
                            sight.add(upper)
                            made = self.facts.names.get(f"n{source}", "")
                            known = self.facts.playback.nodes.get(source)
                            title = (
                                f"from outside: {made}" if made else f"from outside: {known.name if known else source}"
                            )
                            blocks.insert(0, Block(upper, title, kind="outside"))
                    if upper != owner[f"n{node.id}"] and upper in sight:
                        links[(upper, owner[f"n{node.id}"])] = None
        return list(links)

    def _link(self, link: tuple[str, str], bends: list[tuple[float, float]], placed: dict[str, Placed]) -> Shape:
        """Returns the path of gradients between two blocks; the arrow shows the way that backward walks."""
        upper, lower = placed[link[0]], placed[link[1]]
        reach = (lower.width - 30) / 2
        end = lower.x + max(-reach, min(reach, (upper.x - lower.x) * 0.4))
        reach = (upper.width - 30) / 2
        start = upper.x + max(-reach, min(reach, (lower.x - upper.x) * 0.2))
        top = upper.y + upper.height
        points = [(start, top + 5), *bends, (end, lower.y)]
        route = f"M{points[0][0]:.0f} {points[0][1]:.0f}"
        for (x1, y1), (x2, y2) in pairwise(points):
            middle = (y1 + y2) / 2
            route += f"C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}"
        arrow = f"M{start - 4:.0f} {top + 9:.0f}L{start:.0f} {top + 2:.0f}L{start + 4:.0f} {top + 9:.0f}z"
        return group(path(route), path(arrow, kind="arrow"), kind="link", k=link[1])

    def _keep(self, keep: tuple[SavedEdge, str, str], placed: dict[str, Placed], blocks: dict[str, Block]) -> Shape:
        """Returns the line from a saved-tensor row to the tensor that it keeps."""
        edge, target, keeper = keep
        below, above = placed[keeper], placed[target]
        start = below.y + self._row_y(blocks[keeper], edge)
        end = above.y + above.height - 22
        between = (spot for name, spot in placed.items() if name not in (target, keeper))
        others = [spot for spot in between if spot.y < start and spot.y + spot.height > above.y]
        routes = [_curve(below, above, start, end, side, entry) for side, entry in SIDES]
        route = routes[0] if target == keeper else min(routes, key=lambda route: _cost(route, others))
        (x1, y1), (x2, y2), (x3, y3), (x4, y4) = route
        line = f"M{x1:.0f} {y1:.0f}C{x2:.0f} {y2:.0f} {x3:.0f} {y3:.0f} {x4:.0f} {y4:.0f}"
        return group(path(line), kind="keep", k=f"e{edge.id}", s=edge.storage)

    def _row_y(self, block: Block, edge: SavedEdge) -> float:
        """Returns the middle of an edge's row, from the block's top."""
        y = 33.0
        for row in block.rows:
            if row.id == edge.id:
                break
            y += 17 + 15 * (row.id in self.facts.harmed)
        return y

    def _gradient(self, block: Block, placed: dict[str, Placed]) -> list[Shape]:
        """Returns the two lines above a block where backward's gradient appears: the one that came, and the right one."""
        key, spot = block.key, placed[block.key]
        if key.startswith("t"):
            key = next((f"n{node}" for node, leaf in self.facts.fills.items() if f"t{leaf}" == key), key)
        if not key.startswith("n") or int(key[1:]) not in {visit.node for visit in self.facts.recording.backward}:
            return []
        left = spot.x - spot.width / 2 + 2
        ends = [o.x - o.width / 2 for o in placed.values() if o.y - 24 < spot.y and o.y + o.height > spot.y - 24]
        edge = max(o.x + o.width / 2 for o in placed.values()) + MARGIN
        end = min([other for other in ends if other > left] + [edge])
        self.room[int(key[1:])] = int((end - left - 4) / SMALL)
        return [
            text(left, spot.y - 17, k=f"b{key[1:]}", kind="got"),
            text(left, spot.y - 5, k=f"r{key[1:]}", kind="right"),
            text(left, spot.y - 5, k=f"x{key[1:]}", kind="stop"),
        ]


def _curve(below: Placed, above: Placed, start: float, end: float, side: int, entry: int) -> Route:
    """Returns the four points of a cubic curve that leaves one block at `side` and enters another at `entry`."""
    x, to = below.x + side * below.width / 2, above.x + entry * above.width / 2
    if entry:
        out = max(side * x, side * to) * side + side * 22
        return [(x, start), (out, start), (out, end), (to, end)]
    reach, bottom = above.width / 2 - 14, above.y + above.height
    to = max(above.x - reach, min(above.x + reach, x + side * 18))
    return [(x, start), (x + side * 26, start), (to, bottom + 40), (to, bottom)]


def _cost(route: Route, others: list[Placed]) -> float:
    """Returns how bad a route is: each point inside another block counts most, then its length."""
    (x1, y1), (x2, y2), (x3, y3), (x4, y4) = route
    hidden = 0
    for step in range(1, 12):
        t = step / 12
        u = 1 - t
        x = u**3 * x1 + 3 * u * u * t * x2 + 3 * u * t * t * x3 + t**3 * x4
        y = u**3 * y1 + 3 * u * u * t * y2 + 3 * u * t * t * y3 + t**3 * y4
        hidden += sum(abs(x - o.x) < o.width / 2 + 4 and o.y - 4 < y < o.y + o.height + 4 for o in others)
    left = 8 * (x2 < x1)  # the arrow to the line of code leaves on this side
    return hidden * 1000 + left + abs(x1 - x2) + abs(x2 - x3) + abs(x3 - x4) + abs(y1 - y4)
