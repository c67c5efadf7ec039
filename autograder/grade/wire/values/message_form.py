"""The form in which encoded values travel: small parts as one structure, and beside it the long bytes of arrays and texts."""

from __future__ import annotations

from typing import Any

import msgspec

from autograder.grade.wire.values.codec import Unsendable

LONGEST_STRUCTURE = 8 << 20
"""Bytes of a message without its arrays and texts; as Python's objects they take up to a hundred times as much memory."""
BLOB = 256  # bytes; longer ones stand beside the structure


class Values(msgspec.Struct, frozen=True):
    """Encoded values: nodes, roots and writes as msgpack, and beside them the long bytes of arrays and texts."""

    structure: bytes = b"\x93\x90\x90\x90"
    blobs: list[bytes] = []


def to_message(message: list[Any]) -> Values:
    """Returns nodes, roots and writes as a message; raises Unsendable if they are too many."""
    blobs: list[bytes] = []

    def short(part: Any) -> Any:
        if type(part) is bytes and len(part) > BLOB:
            blobs.append(part)
            return [-len(blobs)]
        return part

    structure = msgspec.msgpack.encode([[[short(part) for part in node] for node in nodes] for nodes in message[::2]]
                                       + [[short(root) for root in message[1]]])  # fmt: skip
    if len(structure) > LONGEST_STRUCTURE:
        raise Unsendable(message, f"a value with {len(structure)} bytes of small items")
    return Values(structure, blobs)


def from_message(values: Values) -> list[Any]:
    """Returns nodes, roots and writes; raises ValueError if they are too many or have another form."""
    if len(values.structure) > LONGEST_STRUCTURE:
        raise ValueError("the value has too many items")
    try:
        nodes, writes, roots = msgspec.msgpack.decode(values.structure)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)[:80]) from None

    def long(part: Any) -> Any:
        return values.blobs[-part[0] - 1] if type(part) is list and part[0] < 0 else part

    return [[[long(part) for part in node] for node in nodes], [long(root) for root in roots],
            [[long(part) for part in node] for node in writes]]  # fmt: skip
