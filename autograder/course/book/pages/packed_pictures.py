"""The files of a picture: the packed scene that graph.js draws, and the static picture for readers without scripts."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any

import msgspec

from autograder.tape.recording.schema import Recording
from autograder.view.draw.html import describe_picture, static_frame_number
from autograder.view.draw.svg import draw_picture
from autograder.view.draw.timeline import draw_timeline, scene_timeline
from autograder.view.scene.composition import Scene, build_scene
from autograder.view.scene.timeline import timeline_of, timeline_text


class Picture(msgspec.Struct, frozen=True):
    """A picture of one frame of a scene.

    Attributes:
        name: its address inside the book's folder of pictures, such as "02_mutating_a_saved_tensor/early_zero".
        svg: the static picture.
        words: a description of the picture.
        width, height: the size of the static picture in pixels.
        steps: the number of frames in the scene.
    """

    name: str
    svg: str
    words: str
    width: int
    height: int
    steps: int


def draw(recording: Recording, name: str, counters: bool = False) -> tuple[Picture, Scene]:
    """Return the static picture of the frame at which a live one opens, and the scene, which opens at its first frame.

    Args:
        recording: the recording to draw.
        name: the name of the picture.
        counters: whether the reader sets the version counters before they are shown.
    """
    scene = build_scene(recording, counters=counters)
    timeline = None if counters else timeline_of(recording)
    if timeline is None:
        svg, words = draw_picture(scene, static_frame_number(scene), verdict=not counters), describe_picture(scene)
    else:
        svg, words = draw_timeline(timeline), timeline_text(timeline)
    width, height = _size(svg)
    shown = timeline and scene_timeline(timeline, recording, scene, graph_first=True)
    opened = msgspec.structs.replace(scene, start=0, from_start=True, timeline=shown)
    return Picture(name, svg, words, width, height, len(scene.frames)), opened


def packed_script(name: str, content: dict[str, Any]) -> str:
    """Return a classic script that passes a picture's content to the page, compressed.

    A classic script works with `file://`, unlike `fetch` and modules. Because the content is compressed, a reader of
    the page's source does not see answers by accident.
    """
    packed = base64.b64encode(zlib.compress(msgspec.json.encode(content), 9)).decode()
    return f"book.receive({json.dumps(name)}, {json.dumps(packed)});\n"


def _size(svg: str) -> tuple[int, int]:
    """Return the width and height of an SVG document that `draw_picture` wrote."""
    found = re.match(r"<svg [^>]*?width='(\d+)' height='(\d+)'", svg)
    assert found is not None
    return int(found[1]), int(found[2])
