"""All that the view shows of a recording, to compare with the stored one: words as they are, pictures by a digest."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from autograder.tape.recording.schema import Recording
from autograder.view.draw.svg import as_svg, draw_picture
from autograder.view.playback import Playback
from autograder.view.scene.composition import build_scene
from autograder.view.scene.timeline import timeline_of, timeline_text
from autograder.view.text.first_screen import as_screen
from autograder.view.text.sentences import Sentences
from tests.stored import digest

INITIALISED = re.compile(
    r"(?:\w*uniform_|\w*normal_|fill_|zero_)', storage=\d+, start=\d+, stop=\d+, counters=\S+ bytes_changed=\w+"
)
"""The bytes that an initialization changes: they may be uninitialized before it, so the first and last of them differ between runs."""


def everything_shown(recording: Recording) -> str:
    """Return the first screen and the timeline, and digests of everything else."""
    timeline = timeline_of(recording)
    return "\n".join([as_screen(recording), timeline_text(timeline) if timeline else "", *_digests(recording)])


def _digests(recording: Recording) -> Iterator[str]:
    """Yield a line for each part of the recording and of its scene, and for each step that of its caption and frame."""
    scene = build_scene(recording, predict=True, counters=True)
    for part, struct in (("recording", recording), ("scene", scene)):
        fields = {
            name: INITIALISED.sub("", repr(value))
            for name, value in msgspec.structs.asdict(struct).items()
            if name != "id"
        }
        yield f"{part}: {' '.join(f'{name} {digest(text)}' for name, text in fields.items())}"
    yield f"pictures: {digest(as_svg(recording))} {digest(draw_picture(scene, scene.decisive))}"
    playback = Playback(recording)
    sentences = Sentences(playback)
    captions = [digest(repr(sentences.caption(frame)), sentences.describe(frame)) for frame, _ in playback.play()]
    yield f"captions: {' '.join(captions)}"
    yield f"frames: {' '.join(digest(repr(frame)) for frame in scene.frames)}"
