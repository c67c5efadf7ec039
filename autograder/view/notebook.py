"""The forms of a picture in a notebook: a live widget, a static picture and text, of which only the last two are saved.

The output of a cell is the static picture, HTML with an SVG image, and its text. The live widget is not displayed
itself: its model finds the picture by a class name and replaces it in the page. Therefore a notebook without a kernel,
an export, a feedback page and an untrusted notebook all show the picture. A saved widget would show "Error displaying
widget: model not found" (JupyterLab 4.6 with ipywidgets 8.1).
"""

from __future__ import annotations

import importlib.util
import os
import secrets
from collections.abc import Callable
from html import escape
from typing import Any

import msgspec

from autograder.locale.translations import translated
from autograder.tape.recording.schema import Recording, storable
from autograder.view.assets import front_end_words
from autograder.view.draw.html import as_image, describe_picture
from autograder.view.draw.timeline import live_scene, write_table
from autograder.view.scene.board import Choices
from autograder.view.scene.composition import build_scene
from autograder.view.scene.layout import load_igraph
from autograder.view.scene.timeline import timeline_of
from autograder.view.text.first_screen import MORE_IN_PYTHON, as_screen
from autograder.view.text.report import as_text

STEPS, BRIEF = 16, 4
"""The maximum number of steps that a saved notebook describes in words, below the picture and in its text form."""

MOST_BYTES = 30_000  # the intended maximum size of a saved picture in bytes; a lesson has thirty pictures

RECORDING_TYPE = "application/vnd.autograder.recording+json"
"""The MIME type of a ShownRecording, for a reader that draws it itself."""


class ShownRecording(msgspec.Struct, frozen=True):
    """A recording for another process to draw, and whether its picture hides the outcome or the versions."""

    recording: Recording
    predict: bool = False
    counters: bool = False


def mimebundle(recording: Recording, predict: bool = False, place: str = "", counters: bool = False) -> dict[str, str]:
    """Return the representations that a notebook saves, for IPython's `display(..., raw=True)`.

    These are the forms of `drawn_mimebundle`; in a shell with `takes_recordings` set, the recording itself, as a
    ShownRecording.

    Args:
        recording: the recording to show.
        predict: whether to hide the outcome until the reader opens the words.
        place: class name of the element that a live widget may replace; "" without a widget.
        counters: whether to hide the versions.
    """
    if getattr(_shell(), "takes_recordings", False):
        shown = msgspec.json.encode(ShownRecording(storable(recording), predict, counters)).decode()
        return {RECORDING_TYPE: shown, "text/plain": recording.verdict.outcome}
    return drawn_mimebundle(recording, predict, place, counters)


def drawn_mimebundle(
    recording: Recording, predict: bool = False, place: str = "", counters: bool = False
) -> dict[str, str]:
    """Return "text/html", the timeline with up to 16 steps in words, and "text/plain", the verdict with up to 4 steps.

    If both take more than 30 kB, there are fewer steps in words, down to zero. Where the reader predicts, and without a
    timeline, the picture is that of the graph. A recording without steps, as a watch makes it, has the lines of the first
    harm and the text of the first screen.
    """
    if not recording.steps:
        screen = f"<pre>{escape(as_screen(recording, MORE_IN_PYTHON))}</pre>"
        timeline = timeline_of(recording)
        return {"text/html": (write_table(timeline) if timeline else "") + screen, "text/plain": as_text(recording)}
    brief = as_text(recording, BRIEF)
    timeline = None if predict or counters else timeline_of(recording)
    if timeline is not None:
        shown = write_table(timeline)
    else:
        scene = build_scene(recording, predict, counters=counters)
        shown = f'<img alt="{escape(describe_picture(scene))}" src="{as_image(scene)}">'
    title = translated("What this program does, in words") if predict or counters else translated("In words")
    for steps in (STEPS, STEPS // 2, BRIEF, 1, 0):
        words = as_text(recording, steps) if steps else ""
        # HTML that passes JupyterLab's sanitizer: no script, no style element, no id.
        details = f"<details><summary>{title}</summary><pre>{escape(words)}</pre></details>" if words else ""
        picture = f'<div class="{escape(place)}">{shown}{details}</div>'
        if len(picture.encode()) + len(brief.encode()) <= MOST_BYTES:
            break
    return {"text/html": picture, "text/plain": brief}


def widget(
    recording: Recording,
    predict: bool = False,
    place: str = "",
    from_start: bool = False,
    is_playable: bool = False,
    counters: bool = False,
    graph_first: bool = False,
) -> Any:
    """Return a live widget for a layout of ipywidgets. To show a picture in a cell, use `show`, whose output can be saved.

    This requires anywidget, which the extra `course` installs. The other arguments are those of `show`.

    Args:
        place: class name of the page element that the widget replaces; "" if it is displayed itself.
        is_playable: whether it has a button that shows the program as cards.
    """
    from autograder.view.live import PictureWidget

    if predict or counters:
        scene = build_scene(recording, predict, place, counters)
        scene.is_playable = is_playable
    else:
        scene = live_scene(recording, place, is_playable=is_playable, graph_first=from_start or graph_first)
    if from_start:
        scene = msgspec.structs.replace(scene, start=0, from_start=True)
    return PictureWidget(scene=msgspec.to_builtins(scene))


def show(
    recording: Recording,
    predict: bool = False,
    from_start: bool = False,
    playground: Callable[[], Callable[[Any], None] | None] | None = None,
    counters: bool = False,
    title: str = "",
    graph_first: bool = False,
) -> None:
    """Display a recording: in a notebook the picture, live while a kernel runs; in a terminal the text.

    No widget is created if anywidget is missing (the extra `course` installs it), or while nbgrader executes a
    notebook, for which nbgrader 0.9.6 sets the environment variable NBGRADER_EXECUTION.

    Args:
        recording: the recording to show.
        predict: whether the reader chooses an outcome before the last steps are shown.
        from_start: whether a live picture opens at the first step instead of the decisive one.
        playground: called for a live picture; returns a function that attaches an editor to the widget, or None if the
            program cannot be edited.
        counters: whether the reader sets the version counters before they are shown.
        title: the text of a line that unfolds the picture; "" for a picture that is open.
        graph_first: whether the graph is open below the timeline, as it is with `from_start`.
    """
    if _shell() is None:
        print(as_text(recording), end="")
        return

    def make_widget(place: str) -> Any:
        attach = playground() if playground is not None else None
        picture = widget(recording, predict, place, from_start, attach is not None, counters, graph_first)
        if attach is not None:
            attach(picture)
        return picture

    def bundle_in(place: str) -> dict[str, str]:
        bundle = mimebundle(recording, predict, place, counters)
        if title and "text/html" in bundle:
            bundle["text/html"] = f"<details><summary>{escape(title)}</summary>{bundle['text/html']}</details>"
        return bundle

    display_mimebundle(bundle_in, make_widget if recording.steps else None)


def display_mimebundle(bundle_in: Callable[[str], dict[str, str]], make_widget: Callable[[str], Any] | None) -> None:
    """Display the MIME bundle that a notebook saves, and replace it in the page with a live widget if possible.

    Both functions take the class name of the element that contains the bundle and is replaced; "" without a widget.
    """
    from IPython.display import display

    place = f"autograder-{secrets.token_hex(6)}" if make_widget is not None and _can_live() else ""
    display(bundle_in(place), raw=True)
    if make_widget is not None and place:
        _replace(_shell(), make_widget(place))


def show_choices(name: str, question: str, options: list[tuple[str, str]]) -> None:
    """Display the buttons of an open prediction, which write into its answer's cell; without a live widget, display nothing.

    `name` is the variable that contains the prediction; `options` are the words with their meanings.
    """
    if not (draws_here() and _can_live()) or getattr(_shell(), "takes_recordings", False):
        return

    def make_widget(place: str) -> Any:
        from autograder.view.live import PictureWidget

        choices = msgspec.to_builtins(Choices(name, question, options))
        return PictureWidget(scene={"place": place, "choices": choices, "words": front_end_words()})

    words = "\n".join([question, *(f"{word}: {meaning}" for word, meaning in options)])
    html = f"<p>{escape(question)}</p>"
    display_mimebundle(
        lambda place: {"text/html": f'<div class="{place}">{html}</div>', "text/plain": words}, make_widget
    )


def _can_live() -> bool:
    """Return whether a widget can be displayed: anywidget is installed, and nbgrader is not executing the notebook."""
    return "NBGRADER_EXECUTION" not in os.environ and importlib.util.find_spec("anywidget") is not None


def draws_here() -> bool:
    """Return whether `show` draws a picture or passes the recording on, which it does except in a terminal."""
    return _shell() is not None


def get_ready() -> None:
    """Import the layout library, without its plots, if this is a notebook, so that the first picture is not delayed by it."""
    shell = _shell()
    if shell is not None and not getattr(shell, "takes_recordings", False):
        load_igraph(without_plots=True)


def _shell() -> Any:
    """Return the IPython shell of a Jupyter kernel; None in a terminal."""
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    shell = get_ipython()
    return shell if shell is not None and hasattr(shell, "kernel") else None


_open: dict[str, tuple[str, list[Any]]] = {}
"""Cell → (the request that last ran it, its open widgets), so that a cell can close them when it runs again."""


def _replace(shell: Any, picture: Any) -> None:
    """Add a live widget to its cell, and close those of the cell's earlier runs."""
    parent = shell.get_parent() or {}
    request = str(parent.get("header", {}).get("msg_id", ""))
    cell = str(parent.get("metadata", {}).get("cellId", request))
    last, pictures = _open.get(cell, ("", []))
    if last != request:
        for old in pictures:
            old.close()
        pictures = []
    _open[cell] = (request, [*pictures, picture])
