"""The cells of a graded notebook, as they are stored: their texts and outputs are safe in every program that shows them.

Formgrader turns Markdown into HTML without asking what it holds (nbgrader 0.9.6): raw HTML, `javascript:` links and pictures from
anywhere go into a page of the teacher's Jupyter server. Nothing here depends on how a program reads Markdown: wherever a tag, a
picture, a link or a command could begin, a character without width is put in between, so that the text looks as the student
wrote it and nothing more.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Container
from functools import lru_cache
from typing import Any

from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode

from autograder.grade.clean.drawn_recordings import CannotDraw, Drawings
from autograder.grade.clean.harmless_html import FORMATS, harmless_html, raster_address, raster_base64
from autograder.grade.clean.harmless_text import CONTROL, JOINER, harmless_tex, harmless_text
from autograder.tape.run.time_limit import TimeUp, time_limit
from autograder.view.notebook import RECORDING_TYPE

SHORT, SECONDS = 2_000, 2.0
"""Characters that are always rendered soon enough, and what a longer text may take of processor time."""

PLAIN_TAGS = re.compile(r"<br ?/?>|<(b|i|em|strong|u|sub|sup|kbd|code)>[^<>\n]{0,500}</\1>", re.IGNORECASE)
TAG = re.compile(r"<(?=[A-Za-z/!?])")
PICTURE = re.compile(r"!(?=\[)(?:\[[^\[\]\n]{0,500}\]\((?P<address>[^\s()\\<>]+)\))?")
LINK = re.compile(r"\](?=\()(?:\((?P<address>[^\s()\\<>]+)\))?")
WEB = re.compile(r"https?://|mailto:|#", re.IGNORECASE)
DEFINITION = re.compile(r"\](?=:)(?!:[ \t]*(?:https?://|mailto:|#))")
REFERENCE = re.compile(r"&(?=#|bsol;)")  # a way to write a backslash, or a letter of a command
SCRIPT = re.compile(r"(?:javascript|vbscript)(?=\s*:)", re.IGNORECASE)

ATTACHMENT = re.compile(r"[A-Za-z0-9_.+-]{1,200}")
KEPT_METADATA = ("nbgrader", "autograder", "deletable", "editable")
NOT_SHOWN = {"image/svg+xml": "(a drawing that is not shown)", RECORDING_TYPE: "(a recording that cannot be drawn)"}
OTHER_KIND = "(an output of a kind that is not shown)"
LARGEST_SIDE = 4000
"""Pixels of a picture's width or height that a page may be asked for."""


def harmless_cell(cell: NotebookNode, drawings: Drawings, released: NotebookNode | None = None) -> NotebookNode:
    """Return the cell as it is stored.

    A student's raw cell becomes Markdown: formgrader puts the text of raw cells into its page (nbconvert 7.17, `rawcell`).

    Args:
        cell: of the submission, after it ran.
        drawings: limits the time for its pictures.
        released: the teacher's cell that has the same text; this text and its attachments are kept as they are.
    """
    metadata = NotebookNode({name: cell.metadata[name] for name in KEPT_METADATA if name in cell.metadata})
    clean = NotebookNode(
        {name: cell[name] for name in ("id", "cell_type", "source") if name in cell}, metadata=metadata
    )
    if cell.cell_type == "code":
        count = cell.get("execution_count")
        outputs = [harmless_output(output, drawings) for output in cell.get("outputs", ())]
        return NotebookNode(clean, execution_count=count if type(count) is int else None, outputs=outputs)
    pictures = harmless_attachments(cell.get("attachments")) if released is None else released.get("attachments")
    if pictures:
        clean.attachments = pictures
    if released is None and cell.cell_type == "raw":
        clean.cell_type, clean.source = "markdown", as_code_block(cell.source)
    elif released is None:
        clean.source = harmless_markdown(cell.source, pictures or ())
    return clean


def harmless_attachments(attachments: Any) -> NotebookNode:
    """Return the pictures among a cell's attachments, each by its name and its MIME type."""
    kept = NotebookNode()
    for name, forms in attachments.items() if isinstance(attachments, dict) else ():
        for kind, value in forms.items() if isinstance(forms, dict) else ():
            data = raster_base64(kind, value) if isinstance(value, str) else None
            if data and ATTACHMENT.fullmatch(str(name)):
                kept.setdefault(str(name), NotebookNode())[kind] = data
    return kept


def harmless_output(output: NotebookNode, drawings: Drawings) -> NotebookNode:
    """Return a new output of the same kind, with the fields that nbformat knows. Of its metadata, a picture's size is kept.

    A recording is drawn; `drawings` limits the time for that.
    """
    if output.output_type == "stream":
        name = "stderr" if output.get("name") == "stderr" else "stdout"
        return NotebookNode(output_type="stream", name=name, text=harmless_text(_joined(output.get("text"))))
    if output.output_type == "error":
        name, value = (harmless_text(_joined(output.get(field))) for field in ("ename", "evalue"))
        lines = [harmless_text(str(line)) for line in output.get("traceback", ())]
        return NotebookNode(output_type="error", ename=name, evalue=value, traceback=lines)
    data = _harmless_data(output.get("data", {}), drawings)
    clean = NotebookNode(output_type="display_data", data=data, metadata=_sizes(output.get("metadata"), data))
    if output.output_type == "execute_result":
        count = output.get("execution_count")
        clean.update(output_type="execute_result", execution_count=count if type(count) is int else None)
    return clean


def _harmless_data(data: dict[str, Any], drawings: Drawings) -> NotebookNode:
    kept = NotebookNode()
    if RECORDING_TYPE in data:
        try:
            return NotebookNode(drawings.draw(_joined(data[RECORDING_TYPE])))
        except CannotDraw:
            return NotebookNode({"text/plain": NOT_SHOWN[RECORDING_TYPE]})
    for kind, value in data.items():
        text = _joined(value)
        clean = CLEANED[kind](text) if kind in CLEANED else raster_base64(kind, text)
        if clean is not None:
            kept[kind] = clean
    if not kept.keys() - {"text/plain"}:
        missing = next((text for kind, text in NOT_SHOWN.items() if kind in data), OTHER_KIND)
        kept.setdefault("text/plain", missing)
    return kept


def _joined(value: Any) -> str:
    """Return the text of a field, which nbformat allows to be a list of lines; "" for what is no text."""
    lines = value if isinstance(value, list) else [value]
    return "".join(line for line in lines if isinstance(line, str))


def harmless_picture_size(metadata: Any) -> dict[str, int]:
    """Return the width and height that a picture's metadata ask for, in pixels, where they are numbers in bounds."""
    given = metadata if isinstance(metadata, dict) else {}
    sizes = {side: given.get(side) for side in ("width", "height")}
    return {side: size for side, size in sizes.items() if type(size) is int and 0 < size <= LARGEST_SIDE}


def _sizes(metadata: Any, data: dict[str, Any]) -> NotebookNode:
    """Return the sizes of pictures: the only metadata that a page needs, and numbers only, since templates copy them as they are."""
    given = metadata if isinstance(metadata, dict) else {}
    sizes = {kind: harmless_picture_size(given.get(kind)) for kind in FORMATS.keys() & data.keys()}
    return NotebookNode({kind: NotebookNode(size) for kind, size in sizes.items() if size})


def harmless_markdown(text: str, attachments: Container[str] = ()) -> str:
    """Return Markdown that looks the same and can neither run nor load anything.

    Args:
        text: what the student wrote.
        attachments: names of the cell's pictures. A link to any other attachment stops formgrader (nbconvert 7.17).

    A text that would keep nbconvert busy for long becomes a block of code, which it shows as it is.
    """
    text = _without_actions(text, attachments)
    return text if _is_fast(text) else as_code_block(text)


def _without_actions(text: str, attachments: Container[str]) -> str:
    text = CONTROL.sub("", text)
    text = SCRIPT.sub(lambda found: found[0] + JOINER, REFERENCE.sub("&" + JOINER, harmless_tex(text)))
    text = PICTURE.sub(lambda found: found[0] if _is_inside(found["address"], attachments) else _broken(found[0]), text)
    text = LINK.sub(lambda found: _link(found, attachments), text)
    return _without_tags(DEFINITION.sub("]" + JOINER, text))


def as_code_block(text: str) -> str:
    """Return Markdown that shows a text as it is."""
    return "\n".join("    " + line for line in _without_actions(text, ()).splitlines())


@lru_cache(maxsize=256)
def _is_fast(text: str) -> bool:
    """Return whether nbconvert renders Markdown in proportion to its length; formgrader waits for that in the teacher's server."""
    if len(text) < SHORT:
        return True
    try:
        with time_limit(SECONDS, clock=time.process_time):
            MarkdownWithMath(renderer=IPythonRenderer(escape=False)).render(text)
    except (Exception, TimeUp):  # noqa: BLE001 - or what it cannot read: a diagram, say
        return False
    return True


def _is_inside(address: str | None, attachments: Container[str]) -> bool:
    """Return whether a picture is part of the notebook."""
    name = (address or "").removeprefix("attachment:")
    return name in attachments if name != address else raster_address(name) is not None


def _link(found: re.Match[str], attachments: Container[str]) -> str:
    address = found["address"] or ""
    kept = bool(WEB.match(address)) or _is_inside(address, attachments)
    return found[0] if kept else found[0].replace("]", "]" + JOINER, 1)


def _broken(picture: str) -> str:
    """Return the text of a picture as plain text: no picture, and no link to where it was."""
    return "!" + JOINER + picture[1:].replace("](", "]" + JOINER + "(")


def _without_tags(text: str) -> str:
    pieces, end = [], 0
    for found in PLAIN_TAGS.finditer(text):
        pieces += [TAG.sub("<" + JOINER, text[end : found.start()]), found[0]]
        end = found.end()
    return "".join([*pieces, TAG.sub("<" + JOINER, text[end:])])


# Formgrader puts Markdown and LaTeX into its page as they are (nbgrader 0.9.6 with nbconvert 7.17), so both get the same treatment.
CLEANED: dict[str, Callable[[str], str | None]] = {
    "text/plain": harmless_text,
    "text/html": harmless_html,
    "text/markdown": harmless_markdown,
    "text/latex": harmless_markdown,
}
