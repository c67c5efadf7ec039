"""A picture in a notebook takes three forms: a live widget, a static picture and text. Only the last two are saved.

The output of a cell is the static picture, HTML with an SVG image, and its text. The live widget is not displayed itself: its
model finds the picture by a class name and replaces it in the page. So a notebook opened without a kernel, an export, a feedback
page and an untrusted notebook all show the picture, where JupyterLab 4.6 with ipywidgets 8.1 would show "Error displaying widget:
model not found" for a saved widget.
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
from autograder.tape.recording.schema import Recording
from autograder.view.assets import front_end_words
from autograder.view.draw.html import as_image, describe_picture, essence_html
from autograder.view.scene.board import Choices
from autograder.view.scene.composition import Scene, build_scene
from autograder.view.scene.layout import load_igraph
from autograder.view.text.report import as_text

STEPS, BRIEF = 16, 4
"""Steps in words that a saved notebook holds of a longer run: below the picture, and in place of it."""

MOST_BYTES = 30_000
"""What a saved picture should take at most: a lesson has thirty."""

RECORDING_TYPE = "application/vnd.autograder.recording+json"
"""MIME type of a ShownRecording, for a reader that draws it itself."""


class ShownRecording(msgspec.Struct, frozen=True):
    """A recording to be drawn by another process, and whether its picture hides the outcome or the versions."""

    recording: Recording
    predict: bool = False
    counters: bool = False


def mimebundle(recording: Recording, predict: bool = False, place: str = "", counters: bool = False) -> dict[str, str]:
    """Returns the forms that a notebook saves, as IPython's `display(..., raw=True)` takes them.

    Those of `drawn_mimebundle`; in a shell that has `takes_recordings` set, the recording itself, as a ShownRecording.

    Args:
        predict: hides the outcome until the reader opens the words.
        place: class name of the element that a live widget may replace; "" without a widget.
        counters: hides the versions.
    """
    if getattr(_shell(), "takes_recordings", False):
        shown = msgspec.json.encode(ShownRecording(recording, predict, counters)).decode()
        return {RECORDING_TYPE: shown, "text/plain": recording.verdict.outcome}
    return drawn_mimebundle(recording, predict, place, counters)


def drawn_mimebundle(
    recording: Recording, predict: bool = False, place: str = "", counters: bool = False
) -> dict[str, str]:
    """Returns "text/html", the static picture with up to 16 steps in words, and "text/plain", the verdict with up to 4 steps.

    If both take more than 30 kB, the picture has fewer steps in words, down to zero.
    """
    scene, brief = build_scene(recording, predict, counters=counters), as_text(recording, BRIEF)
    top = "" if predict or counters else essence_html(recording)
    for steps in (STEPS, STEPS // 2, BRIEF, 1, 0):
        picture = top + _static(scene, as_text(recording, steps) if steps else "", place)
        if len(picture.encode()) + len(brief.encode()) <= MOST_BYTES:
            break
    return {"text/html": picture, "text/plain": brief}


def _static(scene: Scene, words: str, place: str) -> str:
    """Returns the static picture as HTML that passes JupyterLab's sanitizer: no script, no style, no id."""
    title = translated("What this program does, in words") if scene.ask is not None else translated("In words")
    told = f"<details><summary>{title}</summary><pre>{escape(words)}</pre></details>" if words else ""
    picture = f'<img alt="{escape(describe_picture(scene))}" src="{as_image(scene)}">'
    return f'<div class="{escape(place)}">{picture}{told}</div>'


def widget(
    recording: Recording,
    predict: bool = False,
    place: str = "",
    from_start: bool = False,
    is_playable: bool = False,
    counters: bool = False,
) -> Any:
    """Returns a live widget, for a layout of ipywidgets. To show a picture in a cell use `show`, whose output can be saved.

    Needs anywidget, which the extra `course` installs.

    Args:
        predict: the learner chooses an outcome before the last steps are shown.
        place: class name of the element of the page that it replaces; "" where it is displayed itself.
        from_start: it opens at the first step, not at the one that decides the outcome.
        is_playable: it has a button that asks for the program as cards.
        counters: the learner sets the version counters before they are shown.
    """
    from autograder.view.live import PictureWidget

    scene = build_scene(recording, predict, place, counters)
    scene.is_playable = is_playable
    if from_start:
        scene = msgspec.structs.replace(scene, start=0, from_start=True)
    return PictureWidget(scene=msgspec.to_builtins(scene))


def show(
    recording: Recording,
    predict: bool = False,
    from_start: bool = False,
    playground: Callable[[], Callable[[Any], None] | None] | None = None,
    counters: bool = False,
) -> None:
    """Displays a recording: in a notebook the picture, live while a kernel runs; in a terminal the text.

    No widget is made where anywidget is not installed (the extra `course` installs it), nor while nbgrader executes a notebook:
    nbgrader 0.9.6 sets the environment variable NBGRADER_EXECUTION then.

    Args:
        predict: the learner chooses an outcome before the last steps are shown.
        from_start: a live picture opens at the first step, not at the one that decides the outcome.
        playground: asked where the picture is live. Returns what is given it, and answers when a reader changes its program; None
            where the program cannot be changed.
        counters: the learner sets the version counters before they are shown.
    """
    if _shell() is None:
        print(as_text(recording), end="")
        return

    def alive(place: str) -> Any:
        attach = playground() if playground is not None else None
        picture = widget(recording, predict, place, from_start, attach is not None, counters)
        if attach is not None:
            attach(picture)
        return picture

    show_forms(lambda place: mimebundle(recording, predict, place, counters), alive)


def show_forms(forms: Callable[[str], dict[str, str]], alive: Callable[[str], Any]) -> None:
    """Displays the forms that a notebook saves, and replaces them in the page by a live widget where there can be one.

    Args:
        forms: returns the saved ones, in an element of the class that it is given; "" without a class.
        alive: returns the widget that replaces the element of that class.
    """
    from IPython.display import display

    place = f"autograder-{secrets.token_hex(6)}" if _can_live() else ""
    display(forms(place), raw=True)
    if place:
        _replace(_shell(), alive(place))


def show_choices(name: str, question: str, options: list[tuple[str, str]]) -> None:
    """Displays the buttons of an open prediction, which write into its answer's cell; nothing where no widget can live.

    Args:
        name: the variable that holds the prediction.
        options: each word with its meaning.
    """
    if not (draws_here() and _can_live()) or getattr(_shell(), "takes_recordings", False):
        return

    def alive(place: str) -> Any:
        from autograder.view.live import PictureWidget

        choices = msgspec.to_builtins(Choices(name, question, options))
        return PictureWidget(scene={"place": place, "choices": choices, "words": front_end_words()})

    words = "\n".join([question, *(f"{word}: {meaning}" for word, meaning in options)])
    html = f"<p>{escape(question)}</p>"
    show_forms(lambda place: {"text/html": f'<div class="{place}">{html}</div>', "text/plain": words}, alive)


def _can_live() -> bool:
    """Returns whether a widget can be displayed: anywidget is there, and nbgrader is not executing the notebook."""
    return "NBGRADER_EXECUTION" not in os.environ and importlib.util.find_spec("anywidget") is not None


def draws_here() -> bool:
    """Returns whether `show` draws a picture, or hands the recording to somebody who does: not in a terminal."""
    return _shell() is not None


def get_ready() -> None:
    """Imports the layout library if this is a notebook, so that the first picture does not wait for it."""
    shell = _shell()
    if shell is not None and not getattr(shell, "takes_recordings", False):
        load_igraph()


def _shell() -> Any:
    """Returns the IPython shell of a Jupyter kernel; None in a terminal."""
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    shell = get_ipython()
    return shell if shell is not None and hasattr(shell, "kernel") else None


_open: dict[str, tuple[str, list[Any]]] = {}
"""Cell → (the request that ran it last, its open widgets), so that a cell which runs again can close them."""


def _replace(shell: Any, picture: Any) -> None:
    """Adds a live widget to its cell, and closes those of the cell's earlier runs."""
    parent = shell.get_parent() or {}
    request = str(parent.get("header", {}).get("msg_id", ""))
    cell = str(parent.get("metadata", {}).get("cellId", request))
    last, pictures = _open.get(cell, ("", []))
    if last != request:
        for old in pictures:
            old.close()
        pictures = []
    _open[cell] = (request, [*pictures, picture])
