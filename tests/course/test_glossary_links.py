"""Words of a lesson lead to their entries in the glossary: by themselves, in each language, and nowhere in code."""

from __future__ import annotations

import html
import re
from urllib.parse import unquote

import mistune
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.course.canonical import read, write
from autograder.course.glossary_links import lesson_in_language, with_glossary_links, without_glossary_links
from autograder.course.paths import NOTEBOOKS, lessons
from autograder.locale.languages import LANGUAGES, METADATA
from autograder.locale.notebook_translation import in_language

LESSONS = [path for path in lessons(NOTEBOOKS) if path.parent.name != "start"]
LINK = re.compile(r'<a href="../start/glossary.ipynb#([^"]*)">.*?</a>')


def page(source: str) -> str:
    """Return a Markdown text as HTML, by a Markdown parser that does not know the links."""
    return str(mistune.html(source))


def words(markup: str) -> str:
    """Return HTML without its tags, with typographic quotation marks replaced."""
    return html.unescape(re.sub(r"<[^>]*>", "", markup)).replace('"', "'")


@pytest.fixture
def glossary(tmp_path):
    """A glossary of three entries."""
    path = tmp_path / "glossary.ipynb"
    titles = ("# Glossary", "## Leaf\n\nNo operation made it.", "## `.data`\n\nBlind.", "## Saved tensor")
    write(new_notebook(cells=[new_markdown_cell(title) for title in titles]), path)
    return path


@pytest.mark.parametrize("spoken", sorted(LANGUAGES))
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_every_link_leads_to_a_heading_once_in_a_lesson(path, spoken):
    """In each lesson and language, a link's anchor is JupyterLab's anchor of a heading: its words, joined by hyphens."""
    glossary = in_language(read(NOTEBOOKS / "start" / "glossary.ipynb"), spoken)
    headings = [heading for cell in glossary.cells for heading in re.findall(r"<h2>(.*?)</h2>", page(cell.source))]
    known = {words(heading).replace(" ", "-") for heading in headings}
    cells = [cell for cell in lesson_in_language(read(path), spoken).cells if cell.cell_type == "markdown"]
    anchors = [unquote(anchor) for cell in cells for anchor in LINK.findall(page(cell.source))]
    assert 5 <= len(anchors) == len(set(anchors))
    assert set(anchors) <= known


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_the_words_stay_as_they_were_written(path):
    """Without the links, a page reads the same; code, headings and links of an author are not linked."""
    released = read(path)
    for cell, plain in zip(released.cells, without_glossary_links(released).cells, strict=True):
        if cell.cell_type != "markdown":
            assert cell == plain
            continue
        assert re.sub("<[^>]*>", "", page(cell.source)) == re.sub("<[^>]*>", "", page(plain.source))
        assert [] == re.findall(r"<(?:pre|h\d)>(?:(?!</).)*glossary", page(cell.source), re.DOTALL)


def test_the_first_use_in_a_lesson_is_linked(glossary):
    """A plural counts, a verb of the same spelling does not; bold text and code of that name are linked, a heading is not."""
    source = "It leaves a **leaf** and leaves.\n`x.data` is not `.data`.\n\n```python\nleaf\n```\n\n## A leaf\n\nSaved tensors [leaf](x)"
    lesson = new_notebook(cells=[new_markdown_cell(source), new_code_cell("leaf"), new_markdown_cell("Two leaves.")])
    linked = with_glossary_links(lesson, glossary)
    to = "(../start/glossary.ipynb#"
    expected = source.replace("**leaf**", f"[**leaf**]{to}Leaf)").replace(" `.data`", f" [`.data`]{to}.data)")
    expected = expected.replace("Saved tensors", f"[Saved tensors]{to}Saved-tensor)")
    assert [expected, "leaf", "Two leaves."] == [cell.source for cell in linked.cells]
    assert lesson == without_glossary_links(linked)


@pytest.mark.parametrize(
    ("source", "linked"),
    [
        ("一个**叶子张量**。", "一个[**叶子张量**](#)。"),
        ("**甲**，**叶子张量的梯度**，*乙*", "**甲**，[**叶子张量的梯度**](#)，*乙*"),
        ("`a * b` 与*叶子张量*，`c * d`", "`a * b` 与[*叶子张量*](#)，`c * d`"),
        ("**不是叶子张量的那一个**", "**不是[叶子张量](#)的那一个**"),
    ],
)
def test_stress_is_inside_a_link(glossary, source, linked):
    """A page does not show an asterisk: next to a Chinese letter, asterisks around a link would not be emphasis."""
    lesson = new_notebook(cells=[new_markdown_cell(source)], metadata={METADATA: "zh-CN"})
    found = with_glossary_links(lesson, glossary)
    assert linked == re.sub(r"\(\.\.[^)]*\)", "(#)", found.cells[0].source)
    assert lesson == without_glossary_links(found)


@pytest.mark.parametrize("spoken", sorted(LANGUAGES))
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_no_page_shows_an_asterisk(path, spoken):
    """Emphasis in a lesson is rendered in each language, outside of code and formulas."""
    cells = [cell for cell in lesson_in_language(read(path), spoken).cells if cell.cell_type == "markdown"]
    for cell in cells:
        shown = re.sub(r"<(pre|code)\b.*?</\1>|\$[^$]*\$", "", page(cell.source), flags=re.DOTALL)
        assert "*" not in shown


def test_a_course_without_a_glossary_has_no_links(tmp_path):
    """Another teacher's notebooks stay as they are."""
    lesson = new_notebook(cells=[new_markdown_cell("A leaf.")])
    assert lesson == with_glossary_links(lesson, tmp_path / "glossary.ipynb")
