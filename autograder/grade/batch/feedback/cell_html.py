"""The parts of a cell as HTML: text with formulas, code, and outputs. Everything passes the same allow-list."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from functools import lru_cache
from html import escape
from typing import Any

import nh3
from latex2mathml.converter import convert
from nbconvert.filters import ansi2html
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from autograder.grade.clean.harmless_cells import harmless_picture_size
from autograder.grade.clean.harmless_html import FORMATS, harmless_page, raster_base64
from autograder.grade.clean.harmless_text import JOINER, harmless_text
from autograder.locale.translations import retold, translated

VERDICTS = {"Incorrect", "NotAttempted", "Missing", "Unreachable", "Ended", "HiddenTest"}
"""Errors of this package whose text says everything."""

FAILED_LINE = re.compile(r"^-+> ?\d+ (.*)$", re.MULTILINE)
TOO_LONG = re.compile(r"CellTimeoutError: stopped after ([\d.]+) seconds")
# A frame of this package says nothing about the student's code.
OUR_FRAME = re.compile(r"(\x1b\[[0-9;]*m)*File (\x1b\[[0-9;]*m)*(…/)?autograder/")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@lru_cache(maxsize=2048)  # most cells are the same for all students
def code_html(source: str) -> str:
    """Return Python code with its colours, as classes of pygments."""
    return highlight(source, PythonLexer(stripnl=False), HtmlFormatter(cssclass="code"))


def markdown_html(text: str, attachments: dict[str, Any] | None = None, folder: str = "") -> str:
    """Return Markdown as harmless HTML, its formulas as MathML, and its pictures from `folder` as part of the page."""
    if attachments or "![" in text or "<img" in text:
        return _rendered(text, _Renderer(attachments, folder))
    return _without_pictures(text)


@lru_cache(maxsize=2048)
def _without_pictures(text: str) -> str:
    return _rendered(text, _Renderer(None, ""))


def _rendered(text: str, renderer: _Renderer) -> str:
    return renderer.with_formulas(harmless_page(MarkdownWithMath(renderer=renderer).render(text)))


class _Renderer(IPythonRenderer):
    """nbconvert's renderer, which puts a mark where a formula stands: MathML is added after all else was cleaned."""

    def __init__(self, attachments: dict[str, Any] | None, folder: str) -> None:
        super().__init__(
            escape=False, embed_images=bool(folder), path=folder, attachments=attachments, exclude_anchor_links=True
        )
        self._formulas: dict[str, str] = {}
        self._mark = secrets.token_hex(8)

    def with_formulas(self, html: str) -> str:
        """Return the page with its formulas."""
        return re.sub(rf"{self._mark}-\d+-", lambda found: self._formulas.get(found[0], ""), html)

    def inline_math(self, body: str) -> str:
        """Render `$…$`."""
        return self._marked(as_mathml(body))

    def block_math(self, body: str) -> str:
        """Render `$$…$$`."""
        return self._marked(as_mathml(body, block=True))

    def latex_environment(self, name: str, body: str) -> str:
        """Render `\\begin{…}…\\end{…}`."""
        return self._marked(as_mathml(f"\\begin{{{name}}}{body}\\end{{{name}}}", block=True))

    def block_mermaidjs(self, code: str) -> str:
        """Render a mermaid diagram, which only a script could draw, as code."""
        return self.block_code(code)

    def _embed_image_or_attachment(self, src: str) -> str:
        # A missing attachment would stop the page (nbconvert 7.17, `InvalidNotebook`).
        name = src.removeprefix("attachment:")
        return "" if name != src and name not in self.attachments else super()._embed_image_or_attachment(src)

    def _marked(self, formula: str) -> str:
        mark = f"{self._mark}-{len(self._formulas)}-"
        self._formulas[mark] = formula
        return mark


def outputs_html(outputs: list[NotebookNode]) -> str:
    """Return outputs, text before pictures, without the text of a check that its error repeats."""
    said = {f"{output.evalue}\n" for output in outputs if output.output_type == "error"}
    shown = [output for output in outputs if output.get("text") not in said]
    ordered = sorted(shown, key=lambda output: output.output_type == "display_data")
    return "".join(output_html(output) for output in ordered)


def output_html(output: NotebookNode) -> str:
    """Return one output."""
    if output.output_type == "stream":
        return f'<pre class="{"warning" if output.name == "stderr" else "printed"}">{_terminal(output.text)}</pre>'
    if output.output_type == "error":
        return error_html(output)
    data = output.get("data", {})
    kind = next((kind for kind in SHOWN if kind in data), None)
    return SHOWN[kind](data[kind], output.get("metadata", {}).get(kind, {})) if kind else ""


def error_html(output: NotebookNode) -> str:
    """Return an error: what it says, and of errors that are not ours the traceback, folded."""
    said = (f"{output.ename}: {output.evalue}" if output.evalue else output.ename).removeprefix("LearnerError: ")
    if stopped := TOO_LONG.search(said):
        return _message(
            translated("Your code took too long: it was stopped after {seconds} seconds.", seconds=stopped[1])
        )
    if output.ename in VERDICTS:
        return _message(retold(output.evalue))
    traceback = "\n".join(part for part in map(harmless_text, output.traceback) if not OUR_FRAME.match(part))
    if output.ename in ("SyntaxError", "IndentationError", "TabError"):
        return _message(traceback)  # shows the place, and nothing else
    lines = FAILED_LINE.findall(COLOURS.sub("", traceback))
    failed = f"\n    {lines[0].strip()}" if lines and not output.evalue else ""
    title = translated("Traceback")
    folded = f"<details><summary>{title}</summary><pre>{_terminal(traceback)}</pre></details>" if lines else ""
    return _message(retold(said) + failed) + folded


def _message(text: str) -> str:
    return f'<pre class="message">{_terminal(text)}</pre>'


def _terminal(text: str) -> str:
    return ansi2html(harmless_text(text))


def _picture(kind: str) -> Callable[[str, dict[str, Any]], str]:
    def shown(text: str, metadata: dict[str, Any]) -> str:
        data = raster_base64(kind, text)
        alt = translated("a picture that the cell shows")
        size = "".join(f' {side}="{pixels}"' for side, pixels in harmless_picture_size(metadata).items())
        return f'<img alt="{alt}" src="data:{kind};base64,{data}"{size}>' if data else ""

    return shown


SHOWN: dict[str, Callable[[str, dict[str, Any]], str]] = {
    "text/html": lambda text, _: f'<div class="shown">{harmless_page(text)}</div>',
    **{kind: _picture(kind) for kind in FORMATS},
    "text/markdown": lambda text, _: markdown_html(text),
    "text/latex": lambda text, _: markdown_html(text),
    "text/plain": lambda text, _: f"<pre>{escape(harmless_text(text))}</pre>",
}
"""MIME types that a page shows, the preferred ones first."""


# fmt: off
TAGS = {
    "math", "mrow", "mi", "mn", "mo", "mfrac", "msup", "msub", "msubsup", "msqrt", "mroot", "mtable", "mtr", "mtd", "mtext", "mspace",
    "mover", "munder", "munderover", "mstyle", "mpadded", "mphantom", "mmultiscripts", "mprescripts", "none",
}
ATTRIBUTES = {
    "math": {"display"}, "mo": {"stretchy", "fence", "minsize", "maxsize"}, "mi": {"mathvariant"},
    "mtable": {"columnalign"}, "mfrac": {"linethickness"}, "mspace": {"width"},
}
# fmt: on
LONGEST = 5_000
# latex2mathml 3.81 knows the starred forms of these only.
SAME_AS = dict.fromkeys(("aligned", "align", "eqnarray", "gathered"), "align*") | {"equation": "", "equation*": ""}


def as_mathml(latex: str, *, block: bool = False) -> str:
    """Return a formula as MathML; one that is not understood as its own text, in code."""
    latex = latex.replace(JOINER, "")
    try:
        if len(latex) > LONGEST:
            raise ValueError
        found = convert(_known_environments(latex), display="block" if block else "inline")
    except Exception:  # noqa: BLE001 - latex2mathml raises errors of many kinds for what it cannot read
        return f"<code>{escape(latex)}</code>"
    # It copies the text of a formula into its elements as it is, and makes attributes of some commands.
    return nh3.clean(found, tags=TAGS, attributes=ATTRIBUTES, clean_content_tags={"script", "style"})


def _known_environments(latex: str) -> str:
    def replace(found: re.Match[str]) -> str:
        name = SAME_AS.get(found[2], found[2])
        return f"\\{found[1]}{{{name}}}" if name else ""

    return re.sub(r"\\(begin|end)\{([a-z]+\*?)\}", replace, latex)
