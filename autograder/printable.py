"""Text from elsewhere, such as the name of a submitted file, in a form that can be printed."""

from __future__ import annotations

import html
import re

ESCAPED_BYTES = range(0xDC80, 0xDD00)  # how Python's file functions decode bytes that are not UTF-8 (PEP 383)


def printable(text: str) -> str:
    """Returns the text with every character visible: control, formatting and undecodable ones as escapes such as `\\x1b`.

    A terminal would carry out escape sequences, and marks of writing direction reorder what is read. The result can be
    encoded as UTF-8. Text that begins or ends with a blank, and empty text, are put in quotes.
    """
    shown = "".join(letter if letter.isprintable() else _escape(letter) for letter in text)
    return shown if shown and shown == shown.strip() else f"'{shown}'"


def html_with_code(text: str) -> str:
    """Returns a text as HTML, with what stands between backticks as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(text))


def _escape(letter: str) -> str:
    if ord(letter) in ESCAPED_BYTES:
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode("ascii")
