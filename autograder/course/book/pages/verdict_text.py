"""A check's message, wrapped for a notebook's output, as HTML that a narrow screen wraps again."""

from __future__ import annotations

import re
from html import escape

from autograder.locale.line_breaks import join_lines
from autograder.locale.translations import translated
from autograder.printable import html_with_code

ROW = re.compile(r"  (\S.*?) {2,}(.+)")
"""A row with its label, as `autograder.check.message` writes it."""


def verdict_html(message: str) -> str:
    """Return a message's sentences as paragraphs and its labeled rows as a list of terms."""
    parts: list[tuple[str, str]] = []
    for line in message.splitlines():
        if row := ROW.fullmatch(line):
            parts.append((row[1], row[2]))
        elif parts and (line.startswith("  ") or (line and not parts[-1][0])):
            parts[-1] = (parts[-1][0], join_lines([parts[-1][1], line]))
        elif line.strip():
            parts.append(("", line.strip()))
    return "".join(_row(label, words) for label, words in parts)


def _row(label: str, words: str) -> str:
    if not label:
        return f"<p>{html_with_code(words[:1].upper() + words[1:])}</p>"
    lead = translated("{label}:", label=label)
    return f"<p><b>{escape(lead)}</b> {html_with_code(words)}</p>"
