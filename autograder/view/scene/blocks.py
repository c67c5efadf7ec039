"""The blocks of the graph: a node with what it keeps and what it made, a tensor nobody computed, a fold."""

from __future__ import annotations

from dataclasses import dataclass, field

from autograder.tape.recording.schema import Node, Recording, SavedEdge, Tensor
from autograder.view.playback import Playback
from autograder.view.scene.folding import Fold
from autograder.view.shapes import BOLD, MONO, SMALL, Shape, box, clip, columns, group, path, shape, text
from autograder.view.text.naming import TensorNames

HEAD, ROW, VALUE = 22, 17, 38
"""Heights in pixels: a block's title, one saved tensor, the tensor it made."""

CHIP = 42
LONGEST = 24
MARKS = "●▲■◆★✚"
KINDS = {"parameter": "parameter", "leaf": "leaf", "input": "no gradient", "result": "no gradient"}


def mark(family: int) -> str:
    """Returns the mark of the `family`-th version counter; its colour is `f0` … `f5`."""
    return MARKS[family % len(MARKS)]


def measure(size: tuple[int, ...]) -> str:
    """Returns a tensor's shape as a reader says it."""
    return "×".join(map(str, size)) if size else "scalar"


@dataclass
class Facts:
    """What the whole film tells before anything is drawn.

    Attributes:
        shown_in: saved edge → the block that shows what it keeps ("n3", "t1"), where one does.
        fills: AccumulateGrad node → its leaf.
        names: block → the longest name its tensor has; `kept`: saved edge → what the learner calls it.
        families: counter family → its place in order of appearance.
        harmed: saved edges that some write hits.
    """

    playback: Playback
    shown_in: dict[int, str] = field(default_factory=dict)
    fills: dict[int, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, int] = field(default_factory=dict)
    kept: dict[int, str] = field(default_factory=dict)
    families: dict[int, int] = field(default_factory=dict)
    harmed: set[int] = field(default_factory=set)

    @property
    def recording(self) -> Recording:
        """The recording that is drawn."""
        return self.playback.recording

    def family(self, tensor: Tensor) -> int:
        """Returns which counter the tensor has, counted in order of appearance."""
        return self.families[tensor.counter]


def learn(recording: Recording) -> Facts:
    """Returns the facts, from one run through the film."""
    facts = Facts(Playback(recording))
    for tensor in recording.tensors:
        facts.families.setdefault(tensor.counter, len(facts.families))
    for node in recording.nodes:
        if node.name.endswith("AccumulateGrad") and node.tensor is not None:
            facts.fills[node.id] = node.tensor
    names = TensorNames(facts.playback)
    for frame, touched in facts.playback.play():
        if frame.kind != "step" or not frame.step:
            continue
        for write in frame.step.writes:
            facts.harmed.update(write.harmed)
        for number in touched.tensors:
            state = facts.playback.states.get(number)
            if state is None:
                continue
            key = f"t{number}" if state.node is None else f"n{state.node}"
            name = names.label(number)
            if columns(name) >= columns(facts.names.get(key, "")):
                facts.names[key] = name
            facts.values[key] = max(facts.values.get(key, 0), columns(state.values))
        for edge in frame.step.saved:
            kept = facts.playback.saved[edge]
            _learn_edge(facts, kept, names.label(kept.tensor))
    return facts


def _learn_edge(facts: Facts, edge: SavedEdge, name: str) -> None:
    """Notes which block shows what an edge keeps, at the moment it was saved."""
    facts.kept[edge.id] = name
    state = facts.playback.states.get(edge.tensor) if edge.tensor is not None else None
    if state is not None:
        facts.shown_in[edge.id] = f"t{edge.tensor}" if state.node is None else f"n{state.node}"


def kept_by(recording: Recording) -> dict[int, list[SavedEdge]]:
    """Returns node → what it keeps."""
    found: dict[int, list[SavedEdge]] = {}
    for edge in recording.saved:
        found.setdefault(edge.node, []).append(edge)
    return found


@dataclass
class Block:
    """One block before it has a place."""

    key: str
    title: str
    side: str = ""
    rows: list[SavedEdge] = field(default_factory=list)
    tensor: Tensor | None = None
    kind: str = "node"
    fold: Fold | None = None
    opens: int | None = None

    def height(self, facts: Facts) -> float:
        """Returns its height in pixels."""
        rows = sum(ROW + (ROW - 2) * (row.id in facts.harmed) for row in self.rows)
        note = ROW if self.kind == "node" and not self.rows else 0
        return HEAD + rows + (4 if rows else 0) + note + (VALUE if self.tensor or self.fold else 0)

    def width(self, facts: Facts) -> float:
        """Returns its width in pixels."""
        head = columns(self.title) * BOLD + columns(self.side) * 5.6 + 34
        rows = [columns(row_label(row, facts)) * SMALL + 19 * SMALL + 34 for row in self.rows]
        rows += [34 * SMALL + 24 for row in self.rows if row.id in facts.harmed]
        value = 0.0
        if self.fold:
            value = columns(inside(self.fold)) * SMALL + 24
        if self.tensor:
            name = min(columns(facts.names.get(self.key, "")), LONGEST)
            line = name * MONO + columns(measure(self.tensor.shape)) * SMALL + CHIP + 34
            value = max(line, min(facts.values.get(self.key, 0), LONGEST + 4) * SMALL + 22)
        return max(96.0, head, value, *rows)


def row_label(edge: SavedEdge, facts: Facts) -> str:
    """Returns "self: d", PyTorch's own name for what is kept and the learner's."""
    return clip(f"{edge.name}: {facts.kept.get(edge.id, '(no name)')}", LONGEST)


def node_block(node: Node, facts: Facts, rows: list[SavedEdge]) -> Block:
    """Returns a node's block."""
    made = facts.playback.made.get(node.id)
    tensor = made.tensor if made else node.tensor
    line = f"line {node.place.line}" if node.place else ""
    known = facts.playback.tensors.get(tensor) if tensor is not None else None
    return Block(f"n{node.id}", clip(node.name, 34), line, rows, known if f"n{node.id}" in facts.names else None)


def tensor_block(tensor: Tensor) -> Block:
    """Returns the block of a leaf or an input, which no node made."""
    return Block(f"t{tensor.id}", KINDS[tensor.kind], "", [], tensor, tensor.kind)


def fold_block(number: int, fold: Fold) -> Block:
    """Returns a fold's block; `number` is the view that opens."""
    return Block(f"f{number}", clip(fold.title, 40), "", [], None, "fold", fold, number)


def draw(block: Block, facts: Facts, left: float, top: float, size: tuple[float, float]) -> Shape:
    """Returns the block's shapes at a place."""
    width, height = size
    rim = f"M{left:g} {top + HEAD}v-15q0 -7 7 -7h{width - 14:g}q7 0 7 7v15z"
    shapes: list[Shape] = []
    if block.fold:
        shapes += [
            box(left + 6, top + 6, width, height, 7, kind="card"),
            box(left + 3, top + 3, width, height, 7, kind="card"),
        ]
    shapes += [
        box(left, top, width, height, 7, kind="card"),
        path(rim, kind="head"),
        text(left + 10, top + 15, block.title, kind="title"),
        text(left + width - 9, top + 15, block.side, kind="side"),
        text(left + width + 4, top + 15, "✓", kind="tick"),
        text(left + width + 4, top + 15, "✗", kind="cross"),
    ]
    y = top + HEAD
    for row in block.rows:
        shapes.append(_row(row, facts, left, y, width))
        y += ROW + (ROW - 2) * (row.id in facts.harmed)
    if block.kind == "node" and not block.rows:
        shapes.append(text(left + 10, y + 12.5, "keeps no tensor", kind="none"))
        y += ROW
    y += 4 if block.rows else 0
    if block.tensor:
        shapes.append(_value(block, facts, left, y, width))
    if block.fold:
        shapes += _inside(block.fold, left, y)
    key = None if block.kind == "outside" else block.key
    return group(*shapes, kind=f"block {block.kind}", k=key, opens=block.opens)


def _row(edge: SavedEdge, facts: Facts, left: float, top: float, width: float) -> Shape:
    """Returns one saved tensor: its name, and the versions then and now."""
    hurt = edge.id in facts.harmed
    return group(
        box(left + 4, top + 3, width - 8, ROW - 2 + (ROW - 2) * hurt, 3, kind="field"),
        shape("circle", cx=left + 11, cy=top + 11, r=2.5),
        text(left + 18, top + 14.5, row_label(edge, facts), kind="slot"),
        text(left + width - 9, top + 14.5, k=f"e{edge.id}t", kind="count"),
        *([text(left + width - 9, top + 29, k=f"e{edge.id}w", kind="count")] if hurt else []),
        kind="kept",
        k=f"e{edge.id}",
        s=edge.storage,
    )


def _value(block: Block, facts: Facts, left: float, top: float, width: float) -> Shape:
    """Returns the tensor of a block: name, shape, version, values."""
    assert block.tensor
    tensor, key = block.tensor, block.key
    name = clip(facts.names.get(key, ""), LONGEST)
    where = left + 16 + columns(name) * MONO
    return group(
        box(left + 2, top + 1, width - 4, VALUE - 3, 3, kind="field"),
        text(left + 10, top + 16, k=f"{key}n", kind="name"),
        text(where, top + 16, measure(tensor.shape), kind="shape"),
        chip(left + width - CHIP - 6, top + 4, facts.family(tensor), f"{key}c"),
        text(left + 10, top + 31, k=f"{key}v", kind="values"),
        kind="value",
        s=tensor.storage,
    )


def chip(left: float, top: float, family: int, key: str) -> Shape:
    """Returns a version counter: colour and mark say which, the number how many writes."""
    return group(
        box(left, top, CHIP, 16, 8),
        text(left + CHIP / 2, top + 12, k=key),
        kind=f"chip f{family % len(MARKS)}",
    )


def inside(fold: Fold) -> str:
    """Returns how much a fold holds: "12 nodes, lines 4–7"."""
    return ", ".join(filter(None, [f"{len(fold.nodes)} nodes", fold.lines]))


def _inside(fold: Fold, left: float, top: float) -> list[Shape]:
    """Returns what a fold says about its inside."""
    return [
        text(left + 10, top + 15, inside(fold), kind="values"),
        text(left + 10, top + 30, "open ▸", kind="opens"),
    ]
