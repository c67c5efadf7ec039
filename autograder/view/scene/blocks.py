"""The blocks of the graph: a node with its saved tensors and its result, a tensor without a node, or a fold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from autograder.locale.line_breaks import columns
from autograder.locale.translations import translatable, translated
from autograder.tape.recording.schema import Node, SavedEdge, Tensor
from autograder.view.keys import Key
from autograder.view.scene.folding import Fold
from autograder.view.scene.recording_index import RecordingIndex
from autograder.view.shapes import BOLD, MONO, SMALL, Shape, box, clip, group, path, shape, text

HEAD, ROW, CHANGE, PAD, VALUE = 22, 17, 15, 4, 38
"""Heights in pixels: a block's title, a saved tensor, the line below it with its changed values, the space below all of them,
and the tensor that the block's node computed.
"""

ROW_MIDDLE, NAME_MIDDLE = 11, 16
"""Pixels from the top of a saved tensor's row, and from the top of the block's own tensor, to the ends of lines."""

CHIP = 42
"""Width in pixels of a version counter."""

LONGEST = 24
"""The maximum number of columns of a name; longer names are cut."""

MARKS = "●▲■◆★✚"
NO_GRADIENT = translatable("no gradient")
TITLES = {
    "parameter": translatable("parameter"),
    "leaf": translatable("leaf"),
    "input": NO_GRADIENT,
    "result": NO_GRADIENT,
}


def counter_mark(number: int) -> str:
    """Return the mark of the `number`-th version counter, counted from 0; its color is given by the classes `f0` to `f5`."""
    return MARKS[number % len(MARKS)]


def format_size(size: tuple[int, ...]) -> str:
    """Return a tensor's shape as text: "2×3", or "scalar"."""
    return "×".join(map(str, size)) if size else translated("scalar")


@dataclass
class Block:
    """One block of the graph, before it has a position.

    Attributes:
        key: the key of the block.
        title: the title.
        side: text at the right of the title.
        rows: the saved tensors of its node.
        tensor: the tensor that its node computed, or the leaf or input that it represents.
        kind: the class name of the block.
        fold: the fold that it represents, if any.
        view: for a fold, the number of the view that it opens.
    """

    key: Key
    title: str
    side: str = ""
    rows: list[SavedEdge] = field(default_factory=list)
    tensor: Tensor | None = None
    kind: str = "node"
    fold: Fold | None = None
    view: int | None = None

    @property
    def is_empty_node(self) -> bool:
        """Whether it is a node without saved tensors."""
        return self.kind == "node" and not self.rows

    def row_tops(self, index: RecordingIndex) -> Iterator[tuple[SavedEdge, float]]:
        """Yield each saved tensor with the top of its row, in pixels from the block's top."""
        top = float(HEAD)
        for row in self.rows:
            yield row, top
            top += row_height(row, index)

    def value_top(self, index: RecordingIndex) -> float:
        """Return the position below the rows, where the block's own tensor begins, in pixels from the block's top."""
        rows = sum(row_height(row, index) for row in self.rows)
        return HEAD + rows + (PAD if self.rows else 0) + (ROW if self.is_empty_node else 0)

    def height(self, index: RecordingIndex) -> float:
        """Return its height in pixels."""
        return self.value_top(index) + (VALUE if self.tensor or self.fold else 0)

    def width(self, index: RecordingIndex) -> float:
        """Return its width in pixels."""
        head = columns(self.title) * BOLD + columns(self.side) * 5.6 + 34
        rows = [columns(row_label(row, index)) * SMALL + 19 * SMALL + 34 for row in self.rows]
        rows += [34 * SMALL + 24 for row in self.rows if row.id in index.harmed]
        value = 0.0
        if self.fold:
            value = columns(describe_fold(self.fold)) * SMALL + 24
        if self.tensor:
            name = min(columns(index.names.get(self.key, "")), LONGEST)
            line = name * MONO + columns(format_size(self.tensor.shape)) * SMALL + CHIP + 34
            value = max(line, min(index.values.get(self.key, 0), LONGEST + 4) * SMALL + 22)
        return max(96.0, head, value, *rows)


def row_height(edge: SavedEdge, index: RecordingIndex) -> float:
    """Return the height of a saved tensor's row in pixels; a modified one has a second line for its changed values."""
    return ROW + (CHANGE if edge.id in index.harmed else 0)


def row_label(edge: SavedEdge, index: RecordingIndex) -> str:
    """Return PyTorch's name of a saved tensor together with its name in the program: "self: d"."""
    return clip(f"{edge.name}: {index.saved_names.get(edge.id, translated('(no name)'))}", LONGEST)


def node_block(node: Node, index: RecordingIndex, rows: list[SavedEdge]) -> Block:
    """Return a node's block."""
    key, made = Key("node", node.id), index.playback.made.get(node.id)
    tensor = made.tensor if made else node.tensor
    layer = clip(index.layers.get(node.id, ""), LONGEST)
    line = translated("line {line}", line=node.place.line) if node.place else ""
    side = ", ".join(filter(None, [layer, line]))
    known = index.playback.tensors.get(tensor) if tensor is not None else None
    return Block(key, clip(node.name, 34), side, rows, known if key in index.names else None)


def tensor_block(tensor: Tensor) -> Block:
    """Return the block of a leaf or an input, which does not have a node."""
    return Block(Key("tensor", tensor.id), translated(TITLES[tensor.kind]), tensor=tensor, kind=tensor.kind)


def fold_block(number: int, fold: Fold) -> Block:
    """Return a fold's block; `number` is the view that it opens."""
    return Block(Key("fold", number), clip(fold.title, 40), kind="fold", fold=fold, view=number)


def draw_block(block: Block, index: RecordingIndex, left: float, top: float, width: float, height: float) -> Shape:
    """Return the block's shapes; all lengths are in pixels."""
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
    shapes += [_row(row, index, left, top + y, width) for row, y in block.row_tops(index)]
    if block.is_empty_node:
        shapes.append(text(left + 10, top + HEAD + 12.5, translated("keeps no tensor"), kind="none"))
    value_top = top + block.value_top(index)
    if block.tensor:
        shapes.append(_value(block, block.tensor, index, left, value_top, width))
    if block.fold:
        shapes += _fold_lines(block.fold, left, value_top)
    key = None if block.kind == "outside" else block.key
    return group(*shapes, kind=f"block {block.kind}", k=key, opens=block.view)


def _row(edge: SavedEdge, index: RecordingIndex, left: float, top: float, width: float) -> Shape:
    """Return the row of a saved tensor: its name, its version when saved and now, and its changed values if it was modified."""
    key, end = Key("saved", edge.id), left + width - 9
    change = [text(end, top + 29, k=key.text("change"), kind="count")] if edge.id in index.harmed else []
    return group(
        box(left + 4, top + 3, width - 8, row_height(edge, index) - 2, 3, kind="field"),
        shape("circle", cx=left + 11, cy=top + ROW_MIDDLE, r=2.5),
        text(left + 18, top + 14.5, row_label(edge, index), kind="slot"),
        text(end, top + 14.5, k=key.text("versions"), kind="count"),
        *change,
        kind="kept",
        k=key,
        s=edge.storage,
    )


def _value(block: Block, tensor: Tensor, index: RecordingIndex, left: float, top: float, width: float) -> Shape:
    """Return the tensor of a block: name, shape, version, values."""
    name = clip(index.names.get(block.key, ""), LONGEST)
    after_name = left + 16 + columns(name) * MONO
    return group(
        box(left + 2, top + 1, width - 4, VALUE - 3, 3, kind="field"),
        text(left + 10, top + 16, k=block.key.text("name"), kind="name"),
        text(after_name, top + 16, format_size(tensor.shape), kind="shape"),
        draw_version(left + width - CHIP - 6, top + 4, index.counter(tensor), block.key.text("version")),
        text(left + 10, top + 31, k=block.key.text("values"), kind="values"),
        kind="value",
        s=tensor.storage,
    )


def draw_version(left: float, top: float, counter: int, key: Key) -> Shape:
    """Return a version: color and mark identify the counter, and the number is its count of in-place writes."""
    return group(
        box(left, top, CHIP, 16, 8),
        text(left + CHIP / 2, top + 12, k=key),
        kind=f"chip f{counter % len(MARKS)}",
    )


def describe_fold(fold: Fold) -> str:
    """Return the size of a fold: "12 nodes, lines 4–7"."""
    return translated(", ").join(filter(None, [translated("{count} nodes", count=len(fold.nodes)), fold.lines]))


def _fold_lines(fold: Fold, left: float, top: float) -> list[Shape]:
    """Return the two lines in a fold's block."""
    return [
        text(left + 10, top + 15, describe_fold(fold), kind="values"),
        text(left + 10, top + 30, translated("open ▸"), kind="opens"),
    ]
