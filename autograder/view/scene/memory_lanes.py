"""The memory pane: a lane for each storage, with the tensors that share it, their versions, and the nodes that saved it."""

from __future__ import annotations

from dataclasses import dataclass, field

from autograder.locale.line_breaks import columns
from autograder.locale.translations import translated
from autograder.tape.recording.schema import SavedEdge, Storage, Tensor
from autograder.view.scene.blocks import CHIP, draw_version, format_size
from autograder.view.scene.recording_index import RecordingIndex
from autograder.view.shapes import SMALL, Key, Shape, box, clip, group, shape, text
from autograder.view.text.naming import count_noun

WIDTH = 330
HEAD, ROW, BAR, NOTE, GAP = 22, 21, 9, 17, 10
"""Heights in pixels: a lane's title, a tensor, the bar below it, a line about a node or a write, the space between lanes."""

MAX_LANES, ALL_OPEN_UP_TO, MAX_OPEN = 40, 6, 4
"""The maximum number of lanes, the number up to which all are open, and the maximum number of open ones among more."""

MOST_NODES = 4  # the maximum number of nodes in a lane


@dataclass
class MemoryLane:
    """One storage, with every tensor that was ever in it."""

    storage: Storage
    title: str = ""  # a letter, or a number from the 27th lane on
    tensors: list[Tensor] = field(default_factory=list)
    saved: list[SavedEdge] = field(default_factory=list)  # the saved tensors in this memory
    is_harmed: bool = False  # whether a write into it is not counted or harms a saved tensor
    is_changed: bool = False  # whether the program modified it after the statement that made it

    @property
    def has_parts(self) -> bool:
        """Whether some tensor covers only a part of it, so that bars show the parts."""
        return any(tensor.start > 0 or tensor.stop < self.storage.bytes for tensor in self.tensors)

    @property
    def row(self) -> float:
        """The height of one tensor's row, in pixels."""
        return ROW + BAR * self.has_parts

    @property
    def height(self) -> float:
        """Its height in pixels, including the space for later frames."""
        return HEAD + len(self.tensors) * self.row + len(self.saved) * NOTE + 6 + NOTE * self.is_harmed


def collect_lanes(index: RecordingIndex) -> tuple[list[MemoryLane], list[MemoryLane]]:
    """Return a lane for each storage that has a name or was saved by a node: the open ones, and the folded ones.

    Up to ALL_OPEN_UP_TO lanes are open, in order of appearance. Of more, MAX_OPEN are open: the decisive one, and others that a write
    changed, those that exist by then first; without any, those that the last nodes saved.
    """
    lanes = [lane for lane in _all_lanes(index) if lane.tensors or lane.saved]
    for number, lane in enumerate(lanes):
        lane.title = chr(ord("A") + number) if number < 26 else str(number + 1)
        del lane.saved[MOST_NODES:]
    if len(lanes) <= ALL_OPEN_UP_TO:
        return lanes, []
    first = [index.playback.saved[edge].storage for edge in index.focus[:1]]
    changed = [lane for lane in lanes if lane.is_changed] or [lane for lane in lanes if lane.saved][-MAX_OPEN:]
    changed.sort(key=lambda lane: (lane.storage.id not in first, [lane.storage.id] > first > [], not lane.is_harmed))
    drawn = {lane.title for lane in changed[:MAX_OPEN]}
    return changed[:MAX_OPEN], [lane for lane in lanes if lane.title not in drawn][: MAX_LANES - MAX_OPEN]


def _all_lanes(index: RecordingIndex) -> list[MemoryLane]:
    """Return a lane for each storage of the recording, with its tensors and saved tensors."""
    steps = index.recording.steps
    lanes = {storage.id: MemoryLane(storage) for storage in index.recording.storages}
    shown = {change.tensor for step in steps for change in step.names}
    shown |= {write.tensor for step in steps for write in step.writes}
    for tensor in index.recording.tensors:
        if tensor.id in shown and tensor.storage in lanes:
            lanes[tensor.storage].tensors.append(tensor)
    for edge in index.recording.saved:
        if edge.storage in lanes and (lanes[edge.storage].tensors or edge.id in index.harmed):
            lanes[edge.storage].saved.append(edge)
    for step in steps:
        new = {index.playback.tensors[tensor].storage for tensor in step.tensors}
        for write in step.writes:
            if write.storage in lanes:
                lane = lanes[write.storage]
                lane.is_harmed = lane.is_harmed or not write.counters or bool(write.harmed)
                lane.is_changed = lane.is_changed or lane.is_harmed or write.storage not in new
    return list(lanes.values())


def draw_lane(lane: MemoryLane, index: RecordingIndex, top: float) -> Shape:
    """Return a lane's shapes, with its upper edge at `top`."""
    key = Key("memory", lane.storage.id)
    size = count_noun(lane.storage.bytes, "{count} byte", "{count} bytes")
    shapes = [
        box(0.5, top + 0.5, WIDTH - 1, lane.height - 1, 7, kind="card"),
        text(10, top + 15, translated("memory {letter}", letter=lane.title), kind="title"),
        text(WIDTH - 10, top + 15, size, kind="side"),
    ]
    y = top + HEAD
    for tensor in lane.tensors:
        shapes.append(_tensor(tensor, lane, index, y))
        y += lane.row
    for edge in lane.saved:
        shapes.append(_node(edge, index, y))
        y += NOTE
    if lane.is_harmed:
        shapes.append(text(12, y + 13, k=key.text("note"), kind="note"))
    return group(*shapes, kind="lane", k=key, s=lane.storage.id)


def _tensor(tensor: Tensor, lane: MemoryLane, index: RecordingIndex, top: float) -> Shape:
    """Return one tensor's row: its names, values, version, and the bytes that it covers if those are not all."""
    key, counter = Key("alias", tensor.id), index.counters[tensor.counter]
    shapes = [
        text(12, top + 14, k=key.text("name"), kind="name"),
        text(WIDTH - CHIP - 16, top + 14, k=key.text("values"), kind="values end"),
        draw_version(WIDTH - CHIP - 8, top + 2, counter, key.text("version")),
    ]
    if lane.has_parts:
        inner, total = WIDTH - 24, max(lane.storage.bytes, 1)
        left, width = inner * tensor.start / total, inner * (tensor.stop - tensor.start) / total
        shapes += [
            box(12, top + ROW, inner, 5, 2, kind="whole"),
            box(12 + left, top + ROW, max(width, 2), 5, 2, kind=f"part f{counter % 6}"),
        ]
    words = translated(
        "tensor of shape {shape}, {dtype}, bytes {start} to {stop}",
        shape=format_size(tensor.shape), dtype=tensor.dtype, start=tensor.start, stop=tensor.stop,
    )  # fmt: skip
    return group(shape("title", words), *shapes, kind="alias", k=key)


def _node(edge: SavedEdge, index: RecordingIndex, top: float) -> Shape:
    """Return the line of a node that saved this memory for backward."""
    key, node = Key("saved", edge.id), index.playback.nodes.get(edge.node)
    label = clip(translated("kept by {node}", node=node.name if node else translated("a node")), 30)
    return group(
        shape("circle", cx=16, cy=top + 9, r=2.5),
        text(24, top + 12.5, label, kind="slot"),
        text(WIDTH - 12, top + 12.5, k=key.text("versions"), kind="count"),
        kind="kept",
        k=key,
    )


def value_columns(name: str) -> int:
    """Return the number of columns of values that fit next to a name."""
    return max(6, int((WIDTH - CHIP - 34 - columns(name) * 7.3) / SMALL))
