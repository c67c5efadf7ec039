"""Pictures of the recordings that a submission's process sent: checked and drawn here, once for all who have the same."""

from __future__ import annotations

import time
from functools import lru_cache

import msgspec

from autograder.tape.recording.schema import Recording
from autograder.tape.run.time_limit import time_limit
from autograder.view.notebook import ShownRecording, drawn_mimebundle

LARGEST = 2 * 2**20  # characters of one recording, and of its picture; the lessons' have some 10,000
MOST_PARTS = 5_000  # tensors, nodes, saved tensors, steps and visits
SECONDS = 10.0  # of processor time, for all drawings of one submission


def checked_recording(data: bytes) -> Recording | None:
    """Returns a recording that a submission's process sent as msgpack; None if it is none, or too large to be drawn."""
    if len(data) > LARGEST:
        return None
    try:
        recording = msgspec.msgpack.decode(data, type=Recording)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return recording if _parts(recording) <= MOST_PARTS else None


class CannotDraw(Exception):
    """A recording is damaged, or too large to be drawn."""


class Drawings:
    """Draws the recordings of one submission, within the time that it may take."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._left = seconds

    def draw(self, text: str) -> dict[str, str]:
        """Returns a recording's picture as HTML, and its words, in the form that `display(..., raw=True)` takes.

        Raises:
            CannotDraw: it is no recording, is too large, or the time for drawings is used up.
        """
        start = time.process_time()  # a busy machine costs nobody a picture
        if len(text) > LARGEST or self._left <= 0:
            raise CannotDraw
        try:
            with time_limit(self._left, CannotDraw, clock=time.process_time):
                return _drawn(text)
        except Exception as error:  # noqa: BLE001 - a forged recording can break any rule that drawing relies on
            raise CannotDraw from error
        finally:
            self._left -= time.process_time() - start


@lru_cache(maxsize=256)
def _drawn(text: str) -> dict[str, str]:
    shown = msgspec.json.decode(text, type=ShownRecording)
    if _parts(shown.recording) > MOST_PARTS:
        raise CannotDraw
    bundle = drawn_mimebundle(shown.recording, shown.predict, counters=shown.counters)
    if len(bundle["text/html"]) > LARGEST:
        raise CannotDraw
    return bundle


def _parts(recording: Recording) -> int:
    parts = (
        recording.tensors,
        recording.nodes,
        recording.saved,
        recording.steps,
        recording.backward,
        recording.storages,
        recording.lost,
    )
    return sum(len(part) for part in parts)
