"""What the book's search looks through: each section's heading and words, as a classic script that the page loads at the first search."""

from __future__ import annotations

import json

from autograder.book.pages.markdown_text import plain


class SearchIndex:
    """Collects the entries of all pages of a language. What a page shows only after an answer is in none of them."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str, str]] = []

    def add(self, address: str, title: str, html: str) -> None:
        """Adds what stands at an address, such as "glossary.html#Leaf"; `html` as the page shows it at first."""
        self.entries.append((address, title, plain(html).removeprefix(title).lstrip()))

    def script(self) -> str:
        """Returns the script."""
        return f"book.receiveIndex({json.dumps(self.entries, ensure_ascii=False)});\n"
