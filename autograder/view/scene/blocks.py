"""The blocks of the graph: a node with its saved tensors and its result, a tensor without a node, or a fold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from autograder.locale.line_breaks import columns
from autograder.locale.translations import translatable, translated
from autograder.tape.recording.schema import Node, SavedEdge, Tensor
from autograder.view.scene.folding import Fold
from autograder.view.scene.recording_index import RecordingIndex
from autograder.view.shapes import BOLD, MONO, SMALL, Key, Shape, box, clip, group, path, shape, text
from autograder.view.text.naming import count_noun

HEAD, ROW, CHANGE, PAD, VALUE, GRADIENT, PILL = 22, 17, 15, 4, 38, 15, 28
"""Heights in pixels: a block's title, a saved tensor, the line below it with its changed values, the space below all of them,
the tensor that the block's node computed, one line of a gradient, and a fold.
"""

ROW_MIDDLE, NAME_MIDDLE = 11, 16
"""Pixels from the top of a saved tensor's row, and from the top of the block's own tensor, to the ends of lines."""

CHIP = 42  # width in pixels of a version counter
LONGEST = 24  # the maximum number of columns of a name; longer names are cut

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
    """One block of the graph, before it has a position."""

    key: Key  # the key of the block
    title: str
    side: str = ""  # text at the right of the title
    rows: list[SavedEdge] = field(default_factory=list)  # the saved tensors of its node
    tensor: Tensor | None = None  # the tensor that its node computed, or the leaf or input that it represents
    kind: str = "node"  # the class name of the block
    fold: Fold | None = None  # the fold that it represents, if any
    view: int | None = None  # for a fold, the number of the view that it opens
    gradient: int | None = None  # the node whose gradient it shows when backward visits it; None if backward never does

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
        return PILL if self.fold else self.gradient_top(index) + GRADIENT * self.gradient_lines(index)

    def gradient_top(self, index: RecordingIndex) -> float:
        """Return the position below its tensor, in pixels from the block's top."""
        return self.value_top(index) + (VALUE if self.tensor else 0)

    def gradient_lines(self, index: RecordingIndex) -> int:
        """Return the number of lines of its gradient: two if it differs from the right one."""
        return index.gradients[self.gradient][0] if self.gradient is not None else 0

    def width(self, index: RecordingIndex) -> float:
        """Return its width in pixels."""
        head = columns(self.title) * (6.6 if self.fold else BOLD) + columns(self.side) * 5.6 + 34
        rows = [columns(row_label(row, index)) * SMALL + 19 * SMALL + 34 for row in self.rows]
        rows += [34 * SMALL + 24 for row in self.rows if row.id in index.harmed]
        value = 0.0
        if self.gradient is not None:
            value = min(index.gradients[self.gradient][1] + 6, LONGEST + 10) * SMALL + 20
        if self.tensor:
            name = min(columns(index.names.get(self.key, "")), LONGEST)
            line = name * MONO + columns(format_size(self.tensor.shape)) * SMALL + CHIP + 34
            value = max(value, line, min(index.values.get(self.key, 0), LONGEST + 4) * SMALL + 22)
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
    visited = node.id if node.id in index.gradients else None
    return Block(key, clip(node.name, 34), side, rows, known if key in index.names else None, gradient=visited)


def tensor_block(tensor: Tensor, index: RecordingIndex) -> Block:
    """Return the block of a leaf or an input, which does not have a node."""
    node = index.accumulators.get(tensor.id)
    visited = node if node in index.gradients else None
    title = translated(TITLES[tensor.kind])
    return Block(Key("tensor", tensor.id), title, tensor=tensor, kind=tensor.kind, gradient=visited)


def fold_block(number: int, fold: Fold) -> Block:
    """Return a fold's block, such as "lines 4–7 · 5 nodes ▸"; `number` is the view that it opens, negative without one."""
    count = count_noun(len(fold.nodes), "{count} node", "{count} nodes")
    title = f"{clip(fold.title, 36)} · {count}"
    if number < 0:
        return Block(Key("fold", number), title, kind="fold", fold=fold)
    return Block(Key("fold", number), f"{title} ▸", kind="fold", fold=fold, view=number)


def draw_block(block: Block, index: RecordingIndex, left: float, top: float, width: float, height: float) -> Shape:
    """Return the block's shapes; all lengths are in pixels."""
    middle = top + (PILL / 2 + 4 if block.fold else 15)
    rim = f"M{left:g} {top + HEAD}v-15q0 -7 7 -7h{width - 14:g}q7 0 7 7v15z"
    shapes: list[Shape] = [
        box(left, top, width, height, PILL / 2 if block.fold else 7, kind="card"),
        *([] if block.fold else [path(rim, kind="head")]),
        text(left + (14 if block.fold else 10), middle, block.title, kind="title"),
        text(left + width - 9, top + 15, block.side, kind="side"),
        text(left + width + 4, middle, "✓", kind="tick"),
        text(left + width + 4, middle, "✗", kind="cross"),
    ]
    shapes += [_row(row, index, left, top + y, width) for row, y in block.row_tops(index)]
    if block.is_empty_node:
        shapes.append(text(left + 10, top + HEAD + 12.5, translated("keeps no tensor"), kind="none"))
    value_top = top + block.value_top(index)
    if block.tensor:
        shapes.append(_value(block, block.tensor, index, left, value_top, width))
    if block.gradient is not None:
        first, last = (
            top + block.gradient_top(index) + GRADIENT * line - 5 for line in (1, block.gradient_lines(index))
        )
        shapes += [
            text(left + 10, first, k=Key("got", block.gradient), kind="got"),
            text(left + 10, last, k=Key("right", block.gradient), kind="right"),
            text(left + 10, last, k=Key("stop", block.gradient), kind="stop"),
        ]
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
        draw_version(left + width - CHIP - 6, top + 4, index.counters[tensor.counter], block.key.text("version")),
        text(left + 10, top + 31, k=block.key.text("values"), kind="values"),
        kind="value",
        s=tensor.storage,
    )


def draw_version(left: float, top: float, counter: int, key: Key) -> Shape:
    """Return a version: color and mark identify the counter, and the number is its count of in-place writes."""
    return group(
        box(left, top, CHIP, 16, 8), text(left + CHIP / 2, top + 12, k=key), kind=f"chip f{counter % len(MARKS)}"
    )
