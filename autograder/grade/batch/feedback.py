"""Feedback that reveals no hidden test: nbgrader's own pages, with hidden tests removed and the HTML in outputs sanitized."""

from __future__ import annotations

import logging
import multiprocessing
import re
from typing import Any

import bleach
from bs4 import BeautifulSoup
from nbconvert.filters import markdown2html
from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbformat import NotebookNode, v4
from nbgrader.apps import NbGraderAPI
from nbgrader.preprocessors import GetGrades, NbGraderPreprocessor
from traitlets import Enum
from traitlets.config import Config

from autograder.grade.batch.classroom import Classroom

HIDDEN_TEST_LEVELS = ("none", "name", "message")
HIDDEN = re.compile(r"^.*BEGIN HIDDEN TESTS(?P<name>.*)\n(?:.*\n)*?.*END HIDDEN TESTS.*$", re.MULTILINE)
REPLACEMENT = "# hidden tests{name}"
# fmt: off
TAGS = {
    "a", "abbr", "b", "blockquote", "br", "caption", "code", "col", "colgroup", "dd", "del", "details", "div", "dl", "dt", "em",
    "figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "kbd", "li", "ol", "p", "pre", "q", "s", "samp",
    "small", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul", "var",
}
# fmt: on
ATTRIBUTES = {"colspan", "rowspan", "align", "border", "alt", "title", "open", "start", "width", "height"}
# Shown as a picture or as text, whatever they contain.
HARMLESS_TYPES = ("image/png", "image/jpeg", "image/gif", "text/plain")


class CoverHiddenTests(NbGraderPreprocessor):
    """Removes hidden tests from a graded notebook's cells, and from their outputs as far as the teacher wants."""

    level = Enum(
        HIDDEN_TEST_LEVELS, "name", help="What to show of a hidden test that failed: none, name or message."
    ).tag(config=True)

    def preprocess_cell(self, cell: NotebookNode, resources: Any, index: int) -> tuple[NotebookNode, Any]:
        """Returns the cell as a learner may see it."""
        found = HIDDEN.search(cell.source) if cell.cell_type == "code" else None
        if found is None:
            return cell, resources
        name = found["name"].strip(" #:")
        cell.source = HIDDEN.sub(lambda match: REPLACEMENT.format(name=_after(match["name"])), cell.source)
        # Without the grader's note an error may come from the hidden part, so it is replaced as well.
        covered = cell.metadata.get("autograder", {}).get("hidden", True)
        cell.outputs = [
            self._replacement(output, name) if covered else _without_lines(output) for output in cell.outputs
        ]
        return cell, resources

    def _replacement(self, output: NotebookNode, name: str) -> NotebookNode:
        if output.output_type != "error":
            return v4.new_output("stream", name="stdout", text="(the output of a hidden test is not shown)\n")
        text = "A hidden test did not pass."
        if self.level != "none" and name:
            text = f"A hidden test did not pass: {name}."
        if self.level == "message":
            text += f"\n{output.ename}: {output.evalue}"
        return v4.new_output("stream", name="stdout", text=text)


class HarmlessOutputs(NbGraderPreprocessor):
    """Keeps only those outputs of a submission that cannot run or load anything in the reader's browser."""

    def preprocess_cell(self, cell: NotebookNode, resources: Any, index: int) -> tuple[NotebookNode, Any]:
        """Returns the cell with its HTML sanitized, and without scripts and unknown MIME types."""
        if cell.cell_type == "code":
            cell.outputs = [_harmless(output) for output in cell.outputs]
        return cell, resources


def harmless_markdown(text: str) -> str:
    """Returns markdown as HTML without scripts; replaces nbconvert's filter `markdown2html`."""
    return _clean(markdown2html(text))


def configure_feedback(config: Config, level: str = "name") -> None:
    """Makes `nbgrader generate_feedback` write such pages; for `nbgrader_config.py`, and for the grader itself.

    Args:
        config: is changed.
        level: what to show of a hidden test that failed: "none", "name" or "message".
    """
    config.GenerateFeedback.preprocessors = [GetGrades, CoverHiddenTests, HarmlessOutputs, CSSHTMLHeaderPreprocessor]
    config.CoverHiddenTests.level = level
    config.HTMLExporter.filters = {"markdown2html": harmless_markdown}
    # The page is read offline and trusted, so it loads no scripts from elsewhere.
    config.HTMLExporter.mathjax_url = ""
    config.HTMLExporter.require_js_url = ""
    config.HTMLExporter.jquery_url = ""


def write_feedback(classroom: Classroom, students: list[str], level: str, jobs: int) -> list[str]:
    """Writes the pages of these students, `jobs` at once, and returns a line for each that could not be written."""
    if not students:
        return []
    count = min(jobs, len(students))
    slices = [(classroom, students[start::count], level) for start in range(count)]
    with multiprocessing.get_context("fork").Pool(count) as pool:
        return [line for lines in pool.starmap(_write, slices) for line in lines]


def _write(classroom: Classroom, students: list[str], level: str) -> list[str]:
    config = classroom.settings()
    configure_feedback(config, level)
    api = NbGraderAPI(config=config)
    api.log.setLevel(logging.CRITICAL)
    failed = []
    for student in students:
        result = api.generate_feedback(classroom.assignment, student, force=True)
        if not result["success"]:
            text = ((result.get("error") or "") + (result.get("log") or "")).strip()
            failed.append(
                f"{student}: no feedback ({text.splitlines()[-1][:200] if text else 'nbgrader gave no reason'})"
            )
    return failed


def _without_lines(output: NotebookNode) -> NotebookNode:
    """Returns an error of the visible part without its traceback, which quotes the lines around it, also hidden ones."""
    if output.output_type == "error":
        output.traceback = [f"{output.ename}: {output.evalue}"]
    return output


def _after(name: str) -> str:
    words = name.strip(" #:")
    return f": {words}" if words else ""


def _harmless(output: NotebookNode) -> NotebookNode:
    data = output.get("data")
    if data is None:
        return output
    kept = {kind: value for kind, value in data.items() if kind in HARMLESS_TYPES and _is_text(value)}
    if "text/html" in data:
        kept["text/html"] = _clean("".join(data["text/html"]))
    if "image/svg+xml" in data and "text/html" not in kept and "image/png" not in kept:
        kept.setdefault("text/plain", "(a drawing that is not shown)")
    output.data = kept or {"text/plain": "(an output of a kind that is not shown)"}
    return output


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(line, str) for line in value))


def _clean(html: str) -> str:
    # bleach would keep the text inside these. A parser is needed, because a picture's data URL may contain the same tags.
    soup = BeautifulSoup(html, "html.parser")
    for element in soup(["style", "script"]):
        element.decompose()
    return bleach.clean(
        str(soup), tags=TAGS, attributes=_may_have, protocols={"http", "https", "mailto", "data"}, strip=True
    )


def _may_have(tag: str, name: str, value: str) -> bool:
    if tag == "img" and name == "src":
        return value.startswith("data:image/") or not re.match(r"(?i)[a-z]+:|//", value)
    if tag == "a" and name == "href":
        return bool(re.match(r"(?i)https?://|mailto:|#", value))
    return name in ATTRIBUTES
