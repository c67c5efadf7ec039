"""A self-contained page: the front-end module with a compressed scene, and the static picture and text for readers without scripts.

The page does not load other files. Its content security policy allows only its own script and style, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from html import escape
from urllib.parse import quote

import msgspec

from autograder.locale.languages import language
from autograder.locale.translations import join_sentences, translated
from autograder.tape.recording.schema import Recording
from autograder.view.assets import pictures, read_asset
from autograder.view.draw.svg import draw_picture
from autograder.view.draw.timeline import NARROW, WIDE, draw_timeline, scene_timeline
from autograder.view.scene.composition import Scene, build_scene
from autograder.view.scene.timeline import timeline_of, timeline_text
from autograder.view.text.report import as_text

MAX_STEPS_IN_WORDS = 120  # the maximum number of steps that a page describes in words below the picture

# must be escaped in a data URL between double quotes
UNSAFE = re.compile(r"[^\w~()*!/:;=,@ $.+?'{}\[\]|^`<>-]+", re.ASCII)
PAGE = """<!doctype html>
<html lang="{language}"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src {style_hash}; script-src {script_hash}">
<meta name="viewport" content="width=device-width"><title>{title}</title>
<style>{style}</style></head><body>
<main id="picture">{image}</main>
<details><summary>{in_words}</summary><pre>{words}</pre></details>
<script type="text/plain" id="scene">{scene}</script>
<script type="module">{script}</script>
</body></html>
"""

PAGE_STYLE = """
:root { color-scheme: light dark; }
body { max-width: 1320px; margin: 16px auto; padding: 0 12px; background: light-dark(#ffffff, #0f1317); color: light-dark(#1b1f24, #e9edf2); font-family: system-ui, sans-serif; }
img { max-width: 100%; } pre { overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; } details { margin-top: 12px; }
@media (max-width: 640px) { .wide { display: none; } } @media (min-width: 641px) { .narrow { display: none; } }
"""  # noqa: E501

START = """
const packed = Uint8Array.from(atob(document.getElementById("scene").textContent), (letter) => letter.charCodeAt(0));
const unpacked = new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate")));
unpacked.json().then((scene) => {
  graph.render({ model: { get: () => scene, on() {}, off() {} }, el: document.getElementById("picture") });
});
"""
"""Decompresses the scene (zlib in base64; 1,000 nodes are 2.4 MB of JSON) and renders it as in a notebook."""


def as_html(recording: Recording, predict: bool = False) -> str:
    """Return an HTML page that works without a kernel, a network or other files.

    Args:
        recording: the recording to show.
        predict: whether the reader chooses an outcome before the last steps are shown.
    """
    scene = build_scene(recording, predict)
    timeline = None if predict else timeline_of(recording)
    if timeline is None:
        image = f'<img alt="{escape(describe_picture(scene), quote=True)}" src="{as_image(scene)}">'
    else:
        scene.timeline = scene_timeline(timeline, recording, scene)
        # one image for wide windows and one for narrow windows, of which PAGE_STYLE shows one
        alt, widths = escape(timeline_text(timeline), quote=True), {"wide": WIDE, "narrow": NARROW}
        urls = {name: _data_url(draw_timeline(timeline, width)) for name, width in widths.items()}
        image = "".join(f'<img class="{name}" alt="{alt}" src="{url}">' for name, url in urls.items())
    script = pictures("const") + START
    style = read_asset("graph.css") + PAGE_STYLE
    return PAGE.format(
        language=language(),
        style_hash=_hash(style),
        script_hash=_hash(script),
        title=escape(translated("What autograd saved") if predict else scene.title),
        style=style,
        script=script,
        image=image,
        in_words=escape(translated("In words")),
        words=escape(as_text(recording, MAX_STEPS_IN_WORDS)),
        scene=base64.b64encode(zlib.compress(msgspec.json.encode(scene), 9)).decode(),
    )


def _data_url(picture: str) -> str:
    """Return an SVG document as a data URL for an attribute in double quotes."""
    return "data:image/svg+xml," + UNSAFE.sub(lambda match: quote(match[0]), picture)


def _hash(text: str) -> str:
    """Return the text's hash in the format of a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def static_frame_number(scene: Scene) -> int:
    """Return the 0-based frame of the static picture: the initial frame of the widget, or the last one before a prediction."""
    return scene.start if scene.ask is None else max(scene.ask - 1, 0)


def as_image(scene: Scene) -> str:
    """Return the static picture as a data URL."""
    return _data_url(draw_picture(scene, static_frame_number(scene), verdict=scene.ask is None))


def describe_picture(scene: Scene) -> str:
    """Return the alternative text of the static picture."""
    frame = scene.frames[static_frame_number(scene)]
    if scene.counters is not None:
        return scene.counters.question
    if scene.ask is not None:
        return join_sentences([frame.fact, frame.meaning, translated("What will this program do?")])
    return join_sentences([translated("{sentence}.", sentence=scene.title), frame.fact, frame.meaning, frame.effect])
