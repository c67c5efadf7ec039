"""The search index of the book: each section's heading and text, in a classic script that is loaded at the first search."""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache
from pathlib import Path

from autograder.course.book.pages.markdown_text import plain


@cache
def _groups() -> list[tuple[re.Pattern[str], list[str]]]:
    """Return each group of synonyms with a pattern for any of its words, in the singular or the plural."""
    groups = tomllib.loads(Path(__file__).with_name("synonyms.toml").read_text("utf-8"))["groups"]
    return [
        (re.compile(rf"(?<![a-z])(?:{'|'.join(map(re.escape, group))})s?(?![a-z])", re.I), group) for group in groups
    ]


def synonyms(text: str) -> str:
    """Return the words of the table that find a text in addition to its own words."""
    return " ".join(dict.fromkeys(word for pattern, group in _groups() if pattern.search(text) for word in group))


class SearchIndex:
    """Collects the entries of all pages of a language, without text that is shown only after an answer."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str, str, str, str]] = []

    def add(self, address: str, title: str, html: str, whole: str = "") -> None:
        """Add the initial text at an address, such as "glossary.html#Leaf", and the synonyms for its whole text."""
        text = plain(html).removeprefix(title).lstrip()
        self.entries.append((address, title, text, synonyms(title), synonyms(plain(whole))))

    def script(self) -> str:
        """Return the script."""
        return f"book.receiveIndex({json.dumps(self.entries, ensure_ascii=False)});\n"
