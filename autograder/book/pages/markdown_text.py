"""Markdown as HTML: links between notebooks lead to pages of the book, formulas are MathML, Python has its colours."""

from __future__ import annotations

import posixpath
import re
from html import escape, unescape
from typing import Any

import mistune
from latex2mathml.converter import convert

from autograder.locale.translations import translated
from autograder.view.scene.code_tokens import highlight

INLINE = re.compile(r"</?(?:a|b|code|del|em|span|strong)\b[^>]*>")
"""Tags inside a line of text, which part no words."""


class LessonRenderer(mistune.HTMLRenderer):
    """What the course writes is trusted, `<details>` included."""

    def __init__(self, root: str) -> None:
        super().__init__(escape=False)
        self.root = root

    def link(self, text: str, url: str, title: str | None = None) -> str:
        """A notebook's address becomes its page's."""
        return super().link(text, page_address(url, self.root), title)

    def heading(self, text: str, level: int, **_: Any) -> str:
        """A heading has the anchor that JupyterLab gives it."""
        return f'<h{level} id="{escape(slug(plain(text)))}">{text}</h{level}>\n'

    def block_code(self, code: str, info: str | None = None) -> str:
        """Python where a fence names it; what is wider than the screen can be scrolled with the keyboard."""
        shown = code_html(code) if info == "python" else escape(code)
        return f'<pre tabindex="0" role="group" aria-label="{translated("code")}"><code>{shown}</code></pre>\n'

    def table_cell(self, text: str, align: str | None = None, head: bool = False) -> str:
        """A header names its column for a screen reader."""
        return f'<th scope="col">{text}</th>\n' if head else f"<td>{text}</td>\n"


def markdown_html(text: str, root: str = "") -> str:
    """Returns a Markdown text as HTML.

    Args:
        root: the relative path from the page to the folder of its language, "" or such as "../".
    """
    renderer = LessonRenderer(root)
    render: Any = mistune.create_markdown(renderer=renderer, plugins=["table", "strikethrough", "math"])
    renderer.register("inline_math", lambda _, formula: convert(unescape(formula)))
    renderer.register("block_math", lambda _, formula: convert(unescape(formula), display="block"))
    # one heading of the first rank belongs to the page itself
    return re.sub(r"<h1.*?</h1>\n?", "", str(render(text)), count=1)


def page_address(url: str, root: str = "") -> str:
    """Returns where a link of a notebook leads in the book: `../start/glossary.ipynb#Leaf` is `glossary.html#Leaf`."""
    file, mark, anchor = url.partition("#")
    if "://" in file or not file.endswith(".ipynb"):
        return url
    name = posixpath.basename(file).removesuffix(".ipynb")
    return f"{root}{'index' if name == 'start' else name}.html{mark}{slug(anchor)}"


def slug(title: str) -> str:
    """Returns the anchor of a heading in JupyterLab's form: its words, joined by hyphens."""
    return re.sub(r"\s+", "-", re.sub(r"[`*]", "", unescape(title).strip()))


def headings(markdown: str) -> list[tuple[int, str]]:
    """Returns the headings of a Markdown cell, each with its rank from 1."""
    return [(len(marks), title.strip()) for marks, title in re.findall(r"^(#{1,4}) (.+)$", markdown, re.M)]


def plain(html: str) -> str:
    """Returns the words of a piece of HTML."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", INLINE.sub("", html))).split())


def code_html(source: str) -> str:
    """Returns Python with a `<span>` for each token that has a colour."""
    lines = [
        "".join(f'<span class="{kind}">{escape(text)}</span>' if kind else escape(text) for text, kind in tokens)
        for tokens in highlight(source)
    ]
    return "\n".join(lines)
