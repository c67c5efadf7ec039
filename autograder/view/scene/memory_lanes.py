"""The memory pane: each piece of memory a box, with the names that share it, their counters, and the nodes that keep it."""

from __future__ import annotations

from dataclasses import dataclass, field

from autograder.tape.recording.schema import SavedEdge, Storage, Tensor
from autograder.view.scene.blocks import CHIP, Facts, chip, measure
from autograder.view.shapes import SMALL, Shape, box, clip, columns, group, letter, shape, text

WIDTH = 380
HEAD, ROW, BAR, NOTE, GAP = 22, 21, 9, 17, 10
MOST = 60
"""Pieces of memory that are drawn; the others are counted."""


@dataclass
class Piece:
    """One piece of memory, with every tensor that ever lay in it."""

    storage: Storage
    title: str
    tensors: list[Tensor] = field(default_factory=list)
    keepers: list[SavedEdge] = field(default_factory=list)
    harmed: bool = False

    @property
    def has_parts(self) -> bool:
        """Whether some tensor covers only a part of it."""
        return any(tensor.start > 0 or tensor.stop < self.storage.bytes for tensor in self.tensors)

    @property
    def height(self) -> float:
        """Its height in pixels, with room for what comes later."""
        rows = len(self.tensors) * (ROW + BAR * self.has_parts) + len(self.keepers) * NOTE
        return HEAD + rows + 6 + (NOTE if self.harmed else 0)


def pieces(facts: Facts) -> list[Piece]:
    """Returns the memory that variables name or nodes keep, in order of appearance, at most MOST."""
    found = {storage.id: Piece(storage, "") for storage in facts.recording.storages}
    called = {change.tensor for step in facts.recording.steps for change in step.names}
    written = {write.tensor for step in facts.recording.steps for write in step.writes}
    for tensor in facts.recording.tensors:
        if (tensor.id in called or tensor.id in written) and tensor.storage in found:
            found[tensor.storage].tensors.append(tensor)
    for edge in facts.recording.saved:
        if edge.storage in found and (found[edge.storage].tensors or edge.id in facts.harmed):
            found[edge.storage].keepers.append(edge)
    for step in facts.recording.steps:
        for write in step.writes:
            if write.storage in found and (not write.counters or write.harmed):
                found[write.storage].harmed = True
    drawn = [piece for piece in found.values() if piece.tensors or piece.keepers]
    for number, piece in enumerate(drawn):
        piece.title = letter(number)
    if len(drawn) > MOST:
        hurt = [piece for piece in drawn if piece.harmed]
        kept = {id(piece) for piece in [*hurt, *drawn[: MOST // 2], *drawn[-MOST // 2 :]][:MOST]}
        drawn = [piece for piece in drawn if id(piece) in kept]
    for piece in drawn:
        del piece.keepers[4:]
    return drawn


def draw(piece: Piece, facts: Facts, top: float) -> Shape:
    """Returns a piece's shapes, its upper edge at `top`."""
    size = f"{piece.storage.bytes} byte{'s' if piece.storage.bytes != 1 else ''}"
    shapes = [
        box(0.5, top + 0.5, WIDTH - 1, piece.height - 1, 7, kind="card"),
        text(10, top + 15, f"memory {piece.title}", kind="title"),
        text(WIDTH - 10, top + 15, size, kind="side"),
    ]
    y = top + HEAD
    for tensor in piece.tensors:
        shapes.append(_alias(tensor, piece, facts, y))
        y += ROW + BAR * piece.has_parts
    for edge in piece.keepers:
        shapes.append(_keeper(edge, facts, y))
        y += NOTE
    if piece.harmed:
        shapes.append(text(12, y + 13, k=f"s{piece.storage.id}t", kind="note"))
    return group(*shapes, kind="piece", k=f"s{piece.storage.id}", s=piece.storage.id)


def _alias(tensor: Tensor, piece: Piece, facts: Facts, top: float) -> Shape:
    """Returns one tensor's row: its names, values, counter, and the bytes it covers where that is not all."""
    shapes = [
        text(12, top + 14, k=f"m{tensor.id}n", kind="name"),
        text(WIDTH - CHIP - 16, top + 14, k=f"m{tensor.id}v", kind="values", anchor="end"),
        chip(WIDTH - CHIP - 8, top + 2, facts.family(tensor), f"m{tensor.id}c"),
    ]
    if piece.has_parts:
        room, total = WIDTH - 24, max(piece.storage.bytes, 1)
        left, width = room * tensor.start / total, room * (tensor.stop - tensor.start) / total
        shapes += [
            box(12, top + ROW, room, 5, 2, kind="whole"),
            box(12 + left, top + ROW, max(width, 2), 5, 2, kind=f"part f{facts.family(tensor) % 6}"),
        ]
    words = f"tensor of shape {measure(tensor.shape)}, {tensor.dtype}, bytes {tensor.start} to {tensor.stop}"
    return group(shape("title", words), *shapes, kind="alias", k=f"m{tensor.id}")


def _keeper(edge: SavedEdge, facts: Facts, top: float) -> Shape:
    """Returns one node that keeps this memory for backward."""
    node = facts.playback.nodes.get(edge.node)
    label = clip(f"kept by {node.name if node else 'a node'}", 30)
    return group(
        shape("circle", cx=16, cy=top + 9, r=2.5),
        text(24, top + 12.5, label, kind="slot"),
        text(WIDTH - 12, top + 12.5, k=f"e{edge.id}t", kind="count"),
        kind="kept",
        k=f"e{edge.id}",
    )


def room(name: str) -> int:
    """Returns how many columns of values fit beside a name."""
    return max(6, int((WIDTH - CHIP - 34 - columns(name) * 7.3) / SMALL))


__all__ = ["GAP", "WIDTH", "Piece", "draw", "pieces", "room"]
