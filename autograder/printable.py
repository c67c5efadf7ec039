"""Printable forms of text from outside, such as the name of a submitted file."""

from __future__ import annotations

import html
import re

ESCAPED_BYTES = range(0xDC80, 0xDD00)  # Python's file functions decode bytes that are not UTF-8 as these (PEP 383)


def printable(text: str) -> str:
    r"""Return the text with control, formatting and undecodable characters as visible escapes such as `\x1b`.

    In a terminal, escape sequences would be executed, and directional marks would reorder the text. The result can be
    encoded as UTF-8. Text that begins or ends with a space, and empty text, is quoted.
    """
    shown = "".join(letter if letter.isprintable() else _escape(letter) for letter in text)
    return shown if shown and shown == shown.strip() else f"'{shown}'"


def html_with_code(text: str) -> str:
    """Return a text as HTML, with the parts between backticks as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(text))


def _escape(letter: str) -> str:
    if ord(letter) in ESCAPED_BYTES:
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode("ascii")
