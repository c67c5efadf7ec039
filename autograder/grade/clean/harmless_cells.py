"""Cells and outputs of a graded notebook, without content that can run or load something, or that names a path of this machine."""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Container, Iterator
from functools import lru_cache
from typing import Any

import msgspec
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode

from autograder.grade.clean.harmless_html import FORMATS, harmless_html, raster_address, raster_base64
from autograder.grade.clean.harmless_text import CONTROL, JOINER, harmless_tex, harmless_text
from autograder.locale.languages import language
from autograder.tape.recording.schema import LARGEST_RECORDING, can_be_drawn
from autograder.tape.run.time_limit import TimeUp, time_limit
from autograder.view.notebook import RECORDING_TYPE, ShownRecording, drawn_mimebundle

SHORT, RENDER_SECONDS = 2_000, 2.0
"""The number of characters that are always rendered fast enough, and the limit of processor time for a longer text."""

# A plain tag with its text, which is kept, or the beginning of another tag.
TAG = re.compile(r"(?i:<br ?/?>|<(b|i|em|strong|u|sub|sup|kbd|code)>[^<>\n]{0,500}</\1>)|<(?=[A-Za-z/!?])")
PICTURE = re.compile(r"!(?=\[)(?:\[[^\[\]\n]{0,500}\]\((?P<address>[^\s()\\<>]+)\))?")
LINK = re.compile(r"\](?=\()(?:\((?P<address>[^\s()\\<>]+)\))?")
WEB = re.compile(r"https?://|mailto:|#", re.IGNORECASE)
DEFINITION = re.compile(r"\](?=:)(?!:[ \t]*(?:https?://|mailto:|#))")
REFERENCE = re.compile(r"&(?=#|bsol;)")  # another notation for a backslash, or for a letter of a command


def harmless_markdown(text: str, attachments: Container[str] = ()) -> str:
    """Return Markdown that looks the same but cannot run or load anything; a block of code if it is slow to render.

    Formgrader inserts raw HTML, `javascript:` links and pictures from any address into its page (nbgrader 0.9.6). So a
    zero-width character is inserted wherever a tag, a picture, a link or a command could begin, in any dialect of
    Markdown.

    `attachments` contains the names of the cell's pictures. A link to any other attachment stops formgrader (nbconvert
    7.17).
    """
    text = _without_actions(text, attachments)
    return text if _is_fast(text) else as_code_block(text)


def _without_actions(text: str, attachments: Container[str]) -> str:
    text = CONTROL.sub("", text)
    text = REFERENCE.sub("&" + JOINER, harmless_tex(text))
    text = PICTURE.sub(
        lambda picture: picture[0] if _is_inside(picture["address"], attachments) else _broken(picture[0]), text
    )
    text = LINK.sub(lambda link: _link(link, attachments), text)
    text = DEFINITION.sub("]" + JOINER, text)
    return TAG.sub(lambda tag: "<" + JOINER if tag[0] == "<" else tag[0], text)


def as_code_block(text: str) -> str:
    """Return Markdown that shows a text as it is."""
    return "\n".join("    " + line for line in _without_actions(text, ()).splitlines())


@lru_cache(maxsize=256)
def _is_fast(text: str) -> bool:
    """Return whether nbconvert renders the Markdown in linear time; the teacher's server waits for the result."""
    if len(text) < SHORT:
        return True
    try:
        with time_limit(RENDER_SECONDS, clock=time.process_time):
            MarkdownWithMath(renderer=IPythonRenderer(escape=False)).render(text)
    except (Exception, TimeUp):  # or a form that it cannot read: a diagram, say
        return False
    return True


def _is_inside(address: str | None, attachments: Container[str]) -> bool:
    """Return whether a picture is part of the notebook."""
    name = (address or "").removeprefix("attachment:")
    return name in attachments if name != address else raster_address(name) is not None


def _link(link: re.Match[str], attachments: Container[str]) -> str:
    address = link["address"] or ""
    is_harmless = bool(WEB.match(address)) or _is_inside(address, attachments)
    return link[0] if is_harmless else link[0].replace("]", "]" + JOINER, 1)


def _broken(picture: str) -> str:
    """Return the source of a picture as plain text, without a picture or a link to its address."""
    return "!" + JOINER + picture[1:].replace("](", "]" + JOINER + "(")


DRAWING_SECONDS = 10.0  # processor time for all drawings of one submission
LARGEST_SIDE = 4000  # pixels of a picture's width or height
ATTACHMENT = re.compile(r"[\w.+ -]{1,200}")  # the name of a picture; nbconvert 7.17 stops at links to some other names
NOT_SHOWN = {RECORDING_TYPE: "(a recording that cannot be drawn)", "image/svg+xml": "(a drawing that is not shown)"}
OTHER_KIND = "(an output of a kind that is not shown)"
# Formgrader inserts Markdown and LaTeX into its page unchanged (nbgrader 0.9.6 with nbconvert 7.17).
CLEANED = {
    "text/plain": harmless_text,
    "text/html": harmless_html,
    "text/markdown": harmless_markdown,
    "text/latex": harmless_markdown,
}


class ProcessorBudget:
    """The processor time that is left for the parts of a page or a notebook; a busy machine costs a student no picture."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    @contextlib.contextmanager
    def limit(self, most: float = math.inf) -> Iterator[None]:
        """Raise TimeUp in the block when the time is used up, or after `most` seconds."""
        if self._left <= 0:
            raise TimeUp
        start = time.process_time()
        try:
            with time_limit(min(self._left, most), clock=time.process_time):
                yield
        finally:
            self._left -= time.process_time() - start


@lru_cache(maxsize=256)  # many students have the same
def _drawn(text: str, _spoken: str) -> dict[str, str]:
    if len(text) > LARGEST_RECORDING:
        raise ValueError
    shown = msgspec.json.decode(text, type=ShownRecording)
    if not can_be_drawn(shown.recording):
        raise ValueError
    bundle = drawn_mimebundle(shown.recording, shown.predict, counters=shown.counters)
    if len(bundle["text/html"]) > LARGEST_RECORDING:
        raise ValueError
    return bundle


def harmless_cell(cell: NotebookNode, drawing: ProcessorBudget, released: NotebookNode | None = None) -> NotebookNode:
    """Return a submission's cell as it is stored. The text is kept if `released`, the teacher's cell with this text, is given."""
    clean = NotebookNode({name: value for name, value in cell.items() if name != "attachments"})
    if "outputs" in cell:
        clean.outputs = [harmless_output(output, drawing) for output in cell.outputs]
    if cell.cell_type == "code":
        return clean
    pictures = harmless_attachments(cell.get("attachments")) if released is None else released.get("attachments")
    if pictures:
        clean.attachments = pictures
    if released is None and cell.cell_type == "raw":  # formgrader shows a raw cell as HTML (nbconvert 7.17, `rawcell`)
        clean.cell_type, clean.source = "markdown", as_code_block(cell.source)
    elif released is None:
        clean.source = harmless_markdown(cell.source, pictures or ())
    return clean


def harmless_attachments(attachments: Any) -> NotebookNode:
    """Return the pictures among a cell's attachments, by name and MIME type."""
    pictures = NotebookNode()
    for name, forms in attachments.items() if isinstance(attachments, dict) else ():
        for kind, value in forms.items() if isinstance(forms, dict) else ():
            data = raster_base64(kind, value) if isinstance(value, str) else None
            if data and ATTACHMENT.fullmatch(str(name)):
                pictures.setdefault(str(name), NotebookNode())[kind] = data
    return pictures


def harmless_output(output: NotebookNode, drawing: ProcessorBudget) -> NotebookNode:
    """Return a new output of the same kind as one that `wire.outputs` reads. Of its metadata, only the size of a picture is kept."""
    clean = NotebookNode(output)
    for field in ("text", "ename", "evalue"):
        if field in output:
            clean[field] = harmless_text(output[field])
    if "traceback" in output:
        clean.traceback = [harmless_text(line) for line in output.traceback]
    if "data" in output:
        clean.data = _harmless_data(output.data, drawing)
        sizes = {kind: harmless_picture_size(output.metadata.get(kind)) for kind in FORMATS.keys() & clean.data.keys()}
        clean.metadata = NotebookNode({kind: NotebookNode(size) for kind, size in sizes.items() if size})
    return clean


def _harmless_data(data: dict[str, Any], drawing: ProcessorBudget) -> NotebookNode:
    if RECORDING_TYPE in data:
        try:
            with drawing.limit():
                return NotebookNode(_drawn(data[RECORDING_TYPE], language()))
        except (Exception, TimeUp):  # a forged recording can break any rule that drawing relies on
            return NotebookNode({"text/plain": NOT_SHOWN[RECORDING_TYPE]})
    values = {
        kind: CLEANED[kind](text) if kind in CLEANED else raster_base64(kind, text) for kind, text in data.items()
    }
    shown = NotebookNode({kind: value for kind, value in values.items() if value is not None})
    if not shown.keys() - {"text/plain"}:
        shown.setdefault("text/plain", next((text for kind, text in NOT_SHOWN.items() if kind in data), OTHER_KIND))
    return shown


def harmless_picture_size(metadata: Any) -> dict[str, int]:
    """Return the width and height in a picture's metadata, in pixels; templates copy metadata unchanged."""
    picture = metadata if isinstance(metadata, dict) else {}
    sizes = {side: picture.get(side) for side in ("width", "height")}
    return {side: size for side, size in sizes.items() if type(size) is int and 0 < size <= LARGEST_SIDE}
