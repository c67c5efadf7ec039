"""Recordings that a submission's process sent, which may be damaged or too large to be drawn. Importing this module is fast."""

from __future__ import annotations

import msgspec

from autograder.tape.recording.schema import Recording

LARGEST_RECORDING = 2 * 2**20  # bytes of one recording, and of its picture; those of the lessons have about 10,000
MOST_PARTS = 5_000  # tensors, nodes, saved tensors, steps and visits


def checked_recording(data: bytes) -> Recording | None:
    """Return a recording that was sent as msgpack; None if it is damaged, or too large to be drawn."""
    try:
        recording = msgspec.msgpack.decode(data, type=Recording) if len(data) <= LARGEST_RECORDING else None
    except (msgspec.MsgspecError, RecursionError):
        return None
    return recording if recording and can_be_drawn(recording) else None


def can_be_drawn(recording: Recording) -> bool:
    """Return whether a recording has few enough parts."""
    names = ("tensors", "nodes", "saved", "steps", "backward", "storages", "lost")
    return sum(len(getattr(recording, name)) for name in names) <= MOST_PARTS
