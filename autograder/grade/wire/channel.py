"""Messages over a socket: the length, then msgpack. Messages are read with a deadline and a size limit."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec

from autograder.errors import UnfinishedError


def _headers() -> list[tuple[int, int, int, int]]:
    headers = [(0, 0, 0, 0)] * 256  # small integers, nil and booleans: one byte each
    for count in range(16):
        headers[0x80 + count], headers[0x90 + count] = (0, 0, 2 * count, 0), (0, 0, count, 0)
    for length in range(32):
        headers[0xA0 + length] = (0, length, 0, 0)
    for power, width in enumerate((1, 2, 4)):
        headers[0xC4 + power] = headers[0xD9 + power] = (width, 0, 0, 0)  # bytes and strings
        headers[0xC7 + power] = (width, 1, 0, 0)
    for first, bodies in ((0xCA, (4, 8)), (0xCC, (1, 2, 4, 8)), (0xD0, (1, 2, 4, 8)), (0xD4, (2, 3, 5, 9, 17))):
        headers[first : first + len(bodies)] = [(0, body, 0, 0) for body in bodies]
    headers[0xDC], headers[0xDD] = (2, 0, 0, 1), (4, 0, 0, 1)
    headers[0xDE], headers[0xDF] = (2, 0, 0, 2), (4, 0, 0, 2)
    return headers


HEADERS = _headers()
"""The meaning of the first byte of a value in msgpack (https://github.com/msgpack/msgpack/blob/master/spec.md).

Four numbers: the bytes of the length that follows (0 if it is fixed), the bytes after the length that it does not count,
the values inside if the length is fixed, and the values inside per unit of the length (0 if the length counts bytes).
"""


def has_more_items(payload: bytes | bytearray, most: int) -> bool:
    """Return whether a message contains, or announces, more than `most` values: numbers, strings, keys, lists and maps alike.

    The function takes time proportional to the smaller of the two numbers. It ignores malformed messages; the decoder
    rejects them.
    """
    position, waiting, items, size = 0, 1, 0, len(payload)
    while waiting and position < size:
        width, body, inner, each = HEADERS[payload[position]]
        position += 1
        waiting += inner - 1
        if width:
            length = int.from_bytes(payload[position : position + width], "big")
            position += width + (0 if each else length)
            waiting += length * each
        position += body
        items += 1
        if items + waiting > most:
            return True
    return False


Received = TypeVar("Received")
Result = TypeVar("Result")
HEADER = struct.Struct("!Q")
POLL_SECONDS = 0.1  # seconds between two calls of `watch` while waiting


class ChannelError(UnfinishedError):
    """The other side has ended, is too slow, or sent something that is not a message; the message fits the reason of a grade."""


def send(connection: socket.socket, message: msgspec.Struct, *, watch: Callable[[], None] | None = None) -> None:
    """Send one message. Raise ChannelError if the other side has ended. `watch` is as in `receive`."""
    payload = memoryview(msgspec.msgpack.encode(message))
    header, sent = memoryview(HEADER.pack(len(payload))), 0
    while sent < len(header) + len(payload):
        # one system call for both, so that the other side is not woken for the eight bytes of the length
        unsent = [header[sent:], payload[max(0, sent - len(header)) :]]
        sent += _retry_until_ready(connection, partial(connection.sendmsg, unsent), None, watch)


def receive(
    connection: socket.socket,
    form: type[Received],
    *,
    largest: int,
    most_items: int | None = None,
    deadline: float | None = None,
    watch: Callable[[], None] | None = None,
) -> Received:
    """Return the next message, which must have the given type and at most `largest` bytes.

    If `most_items` is given, the values are counted before they are built. The deadline is a time of
    `time.monotonic()`; None waits forever. `watch` is called at least ten times per second, whether or not the other
    side sends; it may raise. ChannelError means that the other side has ended, is late, or sent something else.
    """
    (size,) = HEADER.unpack(_receive_exactly(connection, HEADER.size, deadline, watch))
    if size > largest:
        raise ChannelError.of(
            "grade.too_many_bytes|it sent {size} bytes at once, more than the {most} that are allowed",
            size=size,
            most=largest,
        )
    payload = _receive_exactly(connection, size, deadline, watch)
    if most_items is not None and has_more_items(payload, most_items):
        raise ChannelError.of("grade.too_many_values|it sent more than {count} values at once", count=most_items)
    try:
        return msgspec.msgpack.decode(payload, type=form)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        # The message of msgspec is left out because it quotes the data: the reason appears on the student's page, and a
        # worker that runs a hidden test could write the test into it.
        raise ChannelError.of("grade.not_an_answer|it sent data that is not a valid answer") from None


def _receive_exactly(
    connection: socket.socket, size: int, deadline: float | None, watch: Callable[[], None] | None
) -> bytearray:
    received = bytearray()
    while len(received) < size:
        most = min(size - len(received), 1 << 20)
        chunk = _retry_until_ready(connection, partial(connection.recv, most), deadline, watch)
        if not chunk:
            raise ChannelError.of("grade.process_ended|the process exited or was killed")
        received += chunk
    return received


def _retry_until_ready(
    connection: socket.socket, act: Callable[[], Result], deadline: float | None, watch: Callable[[], None] | None
) -> Result:
    """Return the result of `act`, which sends or receives some bytes, as soon as that is possible."""
    patience = POLL_SECONDS if watch or deadline is not None else None
    while True:
        # Check this even if no wait is needed: otherwise a side that sends a byte now and then would not be watched.
        if deadline is not None and time.monotonic() > deadline:
            raise ChannelError.of("grade.time_limit|it exceeded its time limit")
        if watch:
            watch()
        if connection.gettimeout() != patience:  # only if necessary, because setting it is a system call
            connection.settimeout(patience)
        try:
            return act()
        except TimeoutError:
            continue
        except OSError:
            raise ChannelError.of("grade.process_ended|the process exited or was killed") from None
