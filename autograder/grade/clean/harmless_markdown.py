"""Markdown that a submission wrote, for pages that turn it into HTML without asking what it holds.

Formgrader does (nbgrader 0.9.6): raw HTML, `javascript:` links and pictures from anywhere go into a page of the teacher's
Jupyter server. Nothing here depends on how a program reads Markdown: wherever a tag, a picture, a link or a command could begin,
a character without width stands in between, so that the text looks as the student wrote it and nothing more.
"""

from __future__ import annotations

import re
import time
from collections.abc import Container
from functools import lru_cache

from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from autograder.grade.clean.harmless_html import raster_address
from autograder.grade.clean.harmless_text import CONTROL, JOINER, harmless_tex
from autograder.tape.run.time_limit import TimeUp, time_limit

SHORT, SECONDS = 2_000, 2.0
"""Characters that are always rendered soon enough, and what a longer text may take of processor time."""

PLAIN_TAGS = re.compile(r"<br ?/?>|<(b|i|em|strong|u|sub|sup|kbd|code)>[^<>\n]{0,500}</\1>", re.IGNORECASE)
TAG = re.compile(r"<(?=[A-Za-z/!?])")
PICTURE = re.compile(r"!(?=\[)(?:\[[^\[\]\n]{0,500}\]\((?P<address>[^\s()\\<>]+)\))?")
LINK = re.compile(r"\](?=\()(?:\((?P<address>[^\s()\\<>]+)\))?")
WEB = re.compile(r"https?://|mailto:|#", re.IGNORECASE)
DEFINITION = re.compile(r"\](?=:)(?!:[ \t]*(?:https?://|mailto:|#))")
REFERENCE = re.compile(r"&(?=#|bsol;)")  # a way to write a backslash, or a letter of a command


def harmless_markdown(text: str, attachments: Container[str] = ()) -> str:
    """Return Markdown that looks the same and can neither run nor load anything; a block of code if it is slow to render.

    `attachments` has the names of the cell's pictures. A link to any other attachment stops formgrader (nbconvert 7.17).
    """
    text = _without_actions(text, attachments)
    return text if _is_fast(text) else as_code_block(text)


def _without_actions(text: str, attachments: Container[str]) -> str:
    text = CONTROL.sub("", text)
    text = REFERENCE.sub("&" + JOINER, harmless_tex(text))
    text = PICTURE.sub(lambda found: found[0] if _is_inside(found["address"], attachments) else _broken(found[0]), text)
    text = LINK.sub(lambda found: _link(found, attachments), text)
    return _without_tags(DEFINITION.sub("]" + JOINER, text))


def as_code_block(text: str) -> str:
    """Return Markdown that shows a text as it is."""
    return "\n".join("    " + line for line in _without_actions(text, ()).splitlines())


@lru_cache(maxsize=256)
def _is_fast(text: str) -> bool:
    """Return whether nbconvert renders Markdown in proportion to its length; the teacher's server waits for that."""
    if len(text) < SHORT:
        return True
    try:
        with time_limit(SECONDS, clock=time.process_time):
            MarkdownWithMath(renderer=IPythonRenderer(escape=False)).render(text)
    except (Exception, TimeUp):  # noqa: BLE001 - or a form that it cannot read: a diagram, say
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
