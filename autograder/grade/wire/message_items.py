"""Counts the values in a msgpack message before any of them is built, because a byte on the wire may become a hundred in memory."""

from __future__ import annotations


class _Header:
    """What the first byte of a value says, as in msgpack's specification: github.com/msgpack/msgpack/blob/master/spec.md.

    Attributes:
        width: bytes of the length that follows, 0 if the length is fixed.
        body: bytes after the length, apart from those that it counts.
        inner: values inside, if the length is fixed.
        each: values inside for each one that the length counts; 0 if it counts bytes.
    """

    __slots__ = ("body", "each", "inner", "width")

    def __init__(self, width: int = 0, body: int = 0, inner: int = 0, each: int = 0) -> None:
        self.width, self.body, self.inner, self.each = width, body, inner, each


def _headers() -> list[_Header]:
    found = [_Header() for _ in range(256)]  # small integers, nil and booleans: one byte each
    for count in range(16):
        found[0x80 + count], found[0x90 + count] = _Header(inner=2 * count), _Header(inner=count)
    for length in range(32):
        found[0xA0 + length] = _Header(body=length)
    for power, width in enumerate((1, 2, 4)):
        found[0xC4 + power] = found[0xD9 + power] = _Header(width)  # bytes and texts
        found[0xC7 + power] = _Header(width, body=1)
    for first, bodies in ((0xCA, (4, 8)), (0xCC, (1, 2, 4, 8)), (0xD0, (1, 2, 4, 8)), (0xD4, (2, 3, 5, 9, 17))):
        found[first : first + len(bodies)] = [_Header(body=body) for body in bodies]
    found[0xDC], found[0xDD] = _Header(2, each=1), _Header(4, each=1)
    found[0xDE], found[0xDF] = _Header(2, each=2), _Header(4, each=2)
    return found


HEADERS = _headers()


def has_more_items(payload: bytes | bytearray, most: int) -> bool:
    """Returns whether a message holds, or announces, more than `most` values: numbers, texts, keys, lists and maps alike.

    Takes time in proportion to the smaller of both. What is no whole message is left to the decoder to refuse.
    """
    position, waiting, items, size = 0, 1, 0, len(payload)
    while waiting and position < size:
        header = HEADERS[payload[position]]
        position += 1
        waiting += header.inner - 1
        if width := header.width:
            length = int.from_bytes(payload[position : position + width], "big")
            position += width
            waiting += length * header.each
            position += 0 if header.each else length
        position += header.body
        items += 1
        if items + waiting > most:
            return True
    return False
