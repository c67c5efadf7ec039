"""The search index of the book: each section's heading and text, in a classic script that is loaded at the first search."""

from __future__ import annotations

import json

from autograder.course.book.pages.markdown_text import plain


class SearchIndex:
    """Collects the entries of all pages of a language, without text that is shown only after an answer."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str, str]] = []

    def add(self, address: str, title: str, html: str) -> None:
        """Add the initial text at an address, such as "glossary.html#Leaf"."""
        self.entries.append((address, title, plain(html).removeprefix(title).lstrip()))

    def script(self) -> str:
        """Return the script."""
        return f"book.receiveIndex({json.dumps(self.entries, ensure_ascii=False)});\n"
