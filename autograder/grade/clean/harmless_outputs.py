"""Outputs in nbformat's form, with nothing in them that can run, load anything, or name a path of this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbformat import NotebookNode

from autograder.grade.clean.drawn_recordings import CannotDraw, Drawings
from autograder.grade.clean.harmless_html import harmless_html
from autograder.grade.clean.harmless_markdown import harmless_markdown
from autograder.grade.clean.harmless_text import harmless_text
from autograder.grade.clean.raster_images import FORMATS, raster_base64
from autograder.view.notebook import RECORDING_TYPE

NOT_SHOWN = {
    "image/svg+xml": "(a drawing that is not shown)",
    RECORDING_TYPE: "(a recording that cannot be drawn)",
}
OTHER_KIND = "(an output of a kind that is not shown)"
LARGEST_SIDE = 4000
"""Pixels of a picture's width or height that a page may be asked for."""

# Formgrader puts Markdown and LaTeX into its page as they are (nbgrader 0.9.6 with nbconvert 7.17), so both get the same treatment.
CLEANED: dict[str, Callable[[str], str | None]] = {
    "text/plain": harmless_text,
    "text/html": harmless_html,
    "text/markdown": harmless_markdown,
    "text/latex": harmless_markdown,
}


def harmless_output(output: NotebookNode, drawings: Drawings) -> NotebookNode:
    """Returns a new output of the same kind. Of its metadata, only the size of a picture is kept.

    A recording is drawn; `drawings` limits the time for that.
    """
    clean = NotebookNode(output)
    for field in ("text", "ename", "evalue"):
        if field in output:
            clean[field] = harmless_text(_joined(output[field]))
    if "traceback" in output:
        clean.traceback = [harmless_text(str(line)) for line in output.traceback]
    if "data" in output:
        clean.data = _harmless_data(output.data, drawings)
        clean.metadata = _sizes(output.get("metadata"), clean.data)
    return clean


def _harmless_data(data: dict[str, Any], drawings: Drawings) -> NotebookNode:
    kept = NotebookNode()
    if RECORDING_TYPE in data:
        try:
            return NotebookNode(drawings.draw(_joined(data[RECORDING_TYPE])))
        except CannotDraw:
            return NotebookNode({"text/plain": NOT_SHOWN[RECORDING_TYPE]})
    for kind, value in data.items():
        clean = _harmless_value(kind, _joined(value))
        if clean is not None:
            kept[kind] = clean
    if not kept.keys() - {"text/plain"}:
        missing = next((text for kind, text in NOT_SHOWN.items() if kind in data), OTHER_KIND)
        kept.setdefault("text/plain", missing)
    return kept


def _harmless_value(kind: str, text: str) -> str | None:
    return CLEANED[kind](text) if kind in CLEANED else raster_base64(kind, text)


def _joined(value: Any) -> str:
    """Returns the text of a field, which nbformat allows to be a list of lines; "" for what is no text."""
    lines = value if isinstance(value, list) else [value]
    return "".join(line for line in lines if isinstance(line, str))


def harmless_picture_size(metadata: Any) -> dict[str, int]:
    """Returns the width and height that a picture's metadata ask for, in pixels, where they are numbers in bounds."""
    given = metadata if isinstance(metadata, dict) else {}
    sizes = {side: given.get(side) for side in ("width", "height")}
    return {side: size for side, size in sizes.items() if type(size) is int and 0 < size <= LARGEST_SIDE}


def _sizes(metadata: Any, data: dict[str, Any]) -> NotebookNode:
    """Returns the sizes of pictures: the only metadata that a page needs, and numbers only, since templates copy them as they are."""
    given = metadata if isinstance(metadata, dict) else {}
    sizes = {kind: harmless_picture_size(given.get(kind)) for kind in FORMATS.keys() & data.keys()}
    return NotebookNode({kind: NotebookNode(size) for kind, size in sizes.items() if size})
