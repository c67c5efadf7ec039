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
from autograder.view.scene.composition import Scene, build_scene


class Picture(msgspec.Struct, frozen=True):
    """A picture of one frame, and the scene that it was taken from.

    Attributes:
        name: its address inside the book's folder of pictures, such as "02_mutating_a_saved_tensor/early_zero".
        width, height: pixels of the static picture.
        steps: how many frames there are to step through.
    """

    name: str
    svg: str
    words: str
    width: int
    height: int
    steps: int


def draw(recording: Recording, name: str, counters: bool = False) -> tuple[Picture, Scene]:
    """Returns the static picture at the frame where a live one opens, and the scene, which opens at its first frame.

    Args:
        counters: the reader sets the version counters before they are shown.
    """
    scene = build_scene(recording, counters=counters)
    svg = draw_picture(scene, static_frame_number(scene), verdict=not counters)
    width, height = _size(svg)
    opened = msgspec.structs.replace(scene, start=0, from_start=True)
    return Picture(name, svg, describe_picture(scene), width, height, len(scene.frames)), opened


def packed_script(name: str, content: dict[str, Any]) -> str:
    """Returns a classic script that hands a picture's content to the page, compressed.

    A classic script loads from a file as well as from a server, where `fetch` and modules do not. Compressed, the content is not
    plain text: who looks at the source of a page reads no answer by accident.
    """
    packed = base64.b64encode(zlib.compress(msgspec.json.encode(content), 9)).decode()
    return f"book.receive({json.dumps(name)}, {json.dumps(packed)});\n"


def _size(svg: str) -> tuple[int, int]:
    """Returns width and height of an SVG document that `draw_picture` wrote."""
    found = re.match(r"<svg [^>]*?width='(\d+)' height='(\d+)'", svg)
    assert found is not None
    return int(found[1]), int(found[2])
