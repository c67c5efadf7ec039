"""Markdown and checks' messages as HTML with links, formulas in MathML and highlighted Python; and the index of the book's search."""

from __future__ import annotations

import posixpath
import re
import tomllib
from functools import cache
from html import escape, unescape
from pathlib import Path
from typing import Any

import mistune
from latex2mathml.converter import convert

from autograder.errors import html_with_code
from autograder.locale.line_breaks import join_lines
from autograder.locale.translations import translated
from autograder.view.scene.board import highlight


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


def search_entry(address: str, title: str, html: str, whole: str = "") -> tuple[str, str, str, str, str]:
    """Return the entry for the initial text at an address, such as "glossary.html#Leaf", with the synonyms for its whole text.

    It contains no text that is shown only after an answer.
    """
    text = plain(html).removeprefix(title).lstrip()
    return address, title, text, synonyms(title), synonyms(plain(whole))


INLINE = re.compile(r"</?(?:a|b|code|del|em|span|strong)\b[^>]*>")  # inline tags, which do not separate words


class LessonRenderer(mistune.HTMLRenderer):
    """Renders the course's Markdown without escaping, because it is trusted and contains `<details>`."""

    def __init__(self, root: str) -> None:
        super().__init__(escape=False)
        self.root = root

    def link(self, text: str, url: str, title: str | None = None) -> str:
        """Link to the page of a notebook instead of the notebook."""
        return super().link(text, page_address(url, self.root), title)

    def heading(self, text: str, level: int, **_: Any) -> str:
        """Give a heading the anchor that JupyterLab gives it."""
        return f'<h{level} id="{escape(slug(plain(text)))}">{text}</h{level}>\n'

    def block_code(self, code: str, info: str | None = None) -> str:
        """Highlight a fence marked as Python, and make the block scrollable with the keyboard."""
        shown = code_html(code) if info == "python" else escape(code)
        return f'<pre tabindex="0" role="group" aria-label="{translated("code")}"><code>{shown}</code></pre>\n'

    def table_cell(self, text: str, align: str | None = None, head: bool = False) -> str:
        """Mark a header as the name of its column, for screen readers."""
        return f'<th scope="col">{text}</th>\n' if head else f"<td>{text}</td>\n"


def markdown_html(text: str, root: str = "") -> str:
    """Return a Markdown text as HTML; `root` is the path from the page to the folder of its language, "" or such as "../"."""
    renderer = LessonRenderer(root)
    render: Any = mistune.create_markdown(renderer=renderer, plugins=["table", "strikethrough", "math"])
    renderer.register("inline_math", lambda _, formula: convert(unescape(formula)))
    renderer.register("block_math", lambda _, formula: convert(unescape(formula), display="block"))
    # the page has its own level-1 heading
    return re.sub(r"<h1.*?</h1>\n?", "", str(render(text)), count=1)


def page_address(url: str, root: str = "") -> str:
    """Return the address in the book for a link of a notebook: `glossary.html#Leaf` for `../start/glossary.ipynb#Leaf`."""
    file, mark, anchor = url.partition("#")
    if "://" in file or not file.endswith(".ipynb"):
        return url
    return f"{root}{posixpath.basename(file).removesuffix('.ipynb')}.html{mark}{slug(anchor)}"


def slug(title: str) -> str:
    """Return the anchor of a heading in JupyterLab's form: its words, joined by hyphens."""
    return re.sub(r"\s+", "-", re.sub(r"[`*]", "", unescape(title).strip()))


def headings(markdown: str) -> list[tuple[int, str]]:
    """Return the headings of a Markdown cell, each with its rank from 1."""
    return [(len(marks), title.strip()) for marks, title in re.findall(r"^(#{1,4}) (.+)$", markdown, re.M)]


def plain(html: str) -> str:
    """Return the text of a piece of HTML."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", INLINE.sub("", html))).split())


def code_html(source: str) -> str:
    """Return Python with a `<span>` for each highlighted token."""
    lines = [
        "".join(f'<span class="{kind}">{escape(text)}</span>' if kind else escape(text) for text, kind in tokens)
        for tokens in highlight(source)
    ]
    return "\n".join(lines)


ROW = re.compile(r"  (\S.*?) {2,}(.+)")  # a row with its label, as `autograder.check.message` writes it


def verdict_html(message: str) -> str:
    """Return a check's message, wrapped for a notebook, as paragraphs that a narrow screen wraps again, one for each row."""
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
