"""The three forms in a notebook: a live widget, a static picture and text; only the last two are ever saved.

The output of a cell is the static picture (HTML that holds an SVG image) with its text. A live widget is no output of its own:
its model opens beside it, finds the picture by a class name and takes its place. So a saved notebook opened without a kernel, an
export, a feedback page and an untrusted notebook show the picture, where JupyterLab 4.6 and ipywidgets 8.1 would show
"Error displaying widget: model not found" for a saved widget.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
from html import escape
from typing import Any

from autograder.tape.recording.schema import Recording
from autograder.view.draw.html import as_image, described
from autograder.view.scene.composition import Scene, build
from autograder.view.scene.layout import library
from autograder.view.text.report import as_text

STEPS, BRIEF = 16, 6
"""Steps of a longer run that a saved notebook tells in words under the picture, and where no picture is; `as_text` tells all."""


def mimebundle(recording: Recording, predict: bool = False, place: str = "") -> dict[str, str]:
    """Returns the saved forms: "text/html", the static picture with its words, and "text/plain", fewer words.

    Args:
        predict: the outcome stays hidden until the reader opens it.
        place: class name of the element that a live widget may take; "" for none.
    """
    picture = _static(build(recording, predict), as_text(recording, STEPS), place)
    return {"text/html": picture, "text/plain": as_text(recording, BRIEF)}


def _static(scene: Scene, words: str, place: str) -> str:
    """Returns the static picture as HTML that a sanitiser keeps: no script, no style, no identifier."""
    title = "What this program does, in words" if scene.ask is not None else "In words"
    return (
        f'<div class="{escape(place)}"><img alt="{escape(described(scene))}" src="{as_image(scene)}">'
        f"<details><summary>{title}</summary><pre>{escape(words)}</pre></details></div>"
    )


def widget(recording: Recording, predict: bool = False, place: str = "") -> Any:
    """Returns the live widget, for `display` or for a layout of ipywidgets; `show` is what a notebook wants.

    Args:
        predict: the learner chooses an outcome before the last steps open.
        place: class name of the element in the page where it belongs; "" where it is displayed itself.
    """
    import msgspec

    from autograder.view.live import Picture

    return Picture(scene=msgspec.to_builtins(build(recording, predict, place)))


def show(recording: Recording, predict: bool = False) -> None:
    """Displays a recording: step through it live, or see the static picture where no kernel runs; in a terminal, text.

    While nbgrader executes a notebook (its variable NBGRADER_EXECUTION says so, 0.9.6), and where anywidget is not installed
    (the extra `course` brings it), no widget is made: static and text only.
    """
    shell = _shell()
    if shell is None:
        print(as_text(recording), end="")
        return
    from IPython.display import display

    live = "NBGRADER_EXECUTION" not in os.environ and importlib.util.find_spec("anywidget") is not None
    place = f"autograder-{secrets.token_hex(6)}" if live else ""
    display(mimebundle(recording, predict, place), raw=True)
    if place:
        _replace(shell, widget(recording, predict, place))


def get_ready() -> None:
    """Loads what pictures are drawn with, in a notebook only: with its imports, rather than when the first picture is due."""
    if _shell() is not None:
        library()


def _shell() -> Any:
    """Returns the kernel's IPython shell, or None in a plain terminal."""
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    shell = get_ipython()
    return shell if shell is not None and hasattr(shell, "kernel") else None


_open: dict[str, tuple[str, list[Any]]] = {}
"""Cell → (the request that ran it last, its live widgets): a cell that runs again closes what it showed before."""


def _replace(shell: Any, picture: Any) -> None:
    """Remembers a live widget under its cell, and closes those of the cell's earlier runs."""
    parent = shell.get_parent() or {}
    request = str(parent.get("header", {}).get("msg_id", ""))
    cell = str(parent.get("metadata", {}).get("cellId", request))
    last, pictures = _open.get(cell, ("", []))
    if last != request:
        for old in pictures:
            old.close()
        pictures = []
    _open[cell] = (request, [*pictures, picture])
