"""Messages over a socket: a length, then msgpack; read with a deadline and a largest size."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import TypeVar

import msgspec

from autograder.errors import UnfinishedError

Message = TypeVar("Message")
HEADER = struct.Struct("!Q")
TICK = 0.1  # seconds between two checks of the worker's memory while waiting for an answer


class ChannelError(UnfinishedError):
    """The other side is gone, too slow, or sent something that is not a message; the text fits a grade's reason."""


def send(connection: socket.socket, message: msgspec.Struct) -> None:
    """Sends one message; raises ChannelError if the other side is gone."""
    payload = msgspec.msgpack.encode(message)
    try:
        connection.sendall(HEADER.pack(len(payload)))
        connection.sendall(payload)
    except OSError as error:
        raise ChannelError("its process has ended") from error


def receive(
    connection: socket.socket,
    form: type[Message],
    *,
    largest: int,
    deadline: float | None = None,
    watch: Callable[[], None] | None = None,
) -> Message:
    """Returns the next message, of the given form.

    Args:
        connection: a stream socket.
        form: the struct that it must be.
        largest: its maximum size in bytes.
        deadline: on the clock of `time.monotonic()`, in seconds; None waits forever.
        watch: called about ten times a second while waiting; may raise.

    Raises:
        ChannelError: the other side is gone, the time is up, or it sent something else.
    """
    (size,) = HEADER.unpack(_exactly(connection, HEADER.size, deadline, watch))
    if size > largest:
        raise ChannelError(f"it sent {size} bytes at once, more than the {largest} that are allowed")
    payload = _exactly(connection, size, deadline, watch)
    try:
        return msgspec.msgpack.decode(payload, type=form)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise ChannelError(f"it sent something that is not an answer ({str(error)[:80]})") from None


def _exactly(
    connection: socket.socket, size: int, deadline: float | None, watch: Callable[[], None] | None
) -> bytearray:
    received = bytearray()
    while len(received) < size:
        if deadline is not None and time.monotonic() > deadline:
            raise ChannelError("it used up its time")
        connection.settimeout(TICK if watch or deadline is not None else None)
        try:
            chunk = connection.recv(min(size - len(received), 1 << 20))
        except TimeoutError:
            if watch:
                watch()
            continue
        except OSError:
            chunk = b""
        if not chunk:
            raise ChannelError("its process has ended")
        received += chunk
    return received
