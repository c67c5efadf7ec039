"""A search for broken links inside a finished book."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from html.parser import HTMLParser
from urllib.parse import unquote


class _Links(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Store an element's address and anchor."""
        known = dict(attrs)
        self.anchors.add(known.get("id") or "")
        self.targets += [
            url for url in (known.get("href"), known.get("src")) if url and ":" not in url.partition("/")[0]
        ]


def broken_links(files: Mapping[str, str | bytes]) -> list[str]:
    """Return a line for each link to a file or an anchor that is missing from the book.

    Args:
        files: the content of every file by its path in the book; only pages are searched.
    """
    pages = {path: _read(str(text)) for path, text in files.items() if path.endswith(".html")}
    found = []
    for path, page in pages.items():
        for url in dict.fromkeys(page.targets):
            file, _, anchor = unquote(url).partition("#")
            goal = posixpath.normpath(posixpath.join(posixpath.dirname(path), file)) if file else path
            if goal not in files or (anchor and goal in pages and anchor not in pages[goal].anchors):
                found.append(f"{path}: {url}")
    return found


def _read(text: str) -> _Links:
    links = _Links()
    links.feed(text)
    return links
