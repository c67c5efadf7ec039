"""The printable page agrees with plain PyTorch and fits one sheet; words of a lesson lead to the glossary, whose links lead somewhere."""

from __future__ import annotations

import html
import importlib
import re
from urllib.parse import unquote

import mistune
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the name that the page uses
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.course.canonical import read, write
from autograder.course.glossary_links import lesson_in_language, with_glossary_links, without_glossary_links
from autograder.course.paths import NOTEBOOKS, SOLUTIONS, lessons
from autograder.course.summary import OPERATIONS, SummaryPage
from autograder.locale.languages import LANGUAGES, METADATA, use_language
from autograder.locale.notebook_translation import in_language
from autograder.tape.recording.verdict_types import OUTCOMES


@pytest.fixture(scope="module")
def sheet() -> SummaryPage:
    """The page, measured once."""
    return SummaryPage()


def test_the_page_is_in_the_reader_s_language():
    """In Chinese no English sentence is left but PyTorch's own errors; the measured part is the same."""
    with use_language("zh-CN"):
        sheet = SummaryPage()
        shown = re.sub(r"<style>.*?</style>|<code.*?</code>", "", sheet._repr_html_() + repr(sheet), flags=re.DOTALL)
    for row in sheet.outcomes:
        shown = shown.replace(row.evidence, "") if row.outcome.startswith("raises") else shown
    assert "四种结果" in shown
    assert [] == re.findall(r"\b[a-z]{2,} [a-z]{2,} [a-z]{2,}\b", shown)


def test_the_four_programs_come_to_the_four_outcomes(sheet):
    """Each of the four words has exactly one program."""
    assert sorted(OUTCOMES) == sorted(row.outcome for row in sheet.outcomes)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_write_harms_what_the_page_says_is_kept(sheet, operation):
    """Plain PyTorch raises for a write into a tensor that an operation keeps, and for no other write."""
    keeps_input, keeps_output = sheet.operations[operation]
    assert keeps_input == refuses(operation, written="a")
    assert keeps_output == refuses(operation, written="out")


def refuses(operation: str, written: str) -> bool:
    """Return whether backward raises when the input or the output was written after the operation."""
    leaf = torch.tensor([[0.5, 1.0], [1.5, 2.0]], requires_grad=True)
    names = {"torch": torch, "F": F, "a": leaf + 0, "b": leaf + 0}
    names["out"] = eval(operation, names)
    total = names["out"].sum()
    # A view of the input has its memory too, so only a new tensor's own memory can be written alone.
    if written == "out" and names["out"].untyped_storage().data_ptr() == names["a"].untyped_storage().data_ptr():
        return False
    names[written].detach().add_(1)
    try:
        total.backward()
    except RuntimeError:
        return True
    return False


def test_who_shares_memory_and_counter(sheet):
    """Five aliases share the memory, and two of these have their own counter."""
    assert [(True, True)] * 3 + [(True, False)] * 2 + [(False, False)] * 2 == list(sheet.aliases.values())


def test_the_text_says_what_the_page_says(sheet):
    """The text for a terminal contains every operation, alias and outcome as well."""
    text = repr(sheet)
    assert [] == [word for word in (*OPERATIONS, *sheet.aliases, *OUTCOMES) if word not in text]


def test_the_page_is_one_sheet_of_paper(sheet, browser):
    """Printed by Chromium on A4 with ordinary margins, the page is one page; with twice the rows it would be two."""
    content = sheet._repr_html_()
    with browser.new_page() as page:
        assert [1, 2] == [sheets(page, html) for html in (content, content * 2)]


def sheets(page, html: str) -> int:
    """Return how many sheets the page takes in print."""
    page.set_content(html)
    margin = dict.fromkeys(("top", "right", "bottom", "left"), "15mm")
    return len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4", margin=margin)))


def glossary() -> dict[str, str]:
    """Return each term of the glossary with its text."""
    cells = [cell.source for cell in read(SOLUTIONS / "start" / "glossary.ipynb").cells]
    return {source.splitlines()[0].removeprefix("## "): source for source in cells if source.startswith("## ")}


@pytest.mark.parametrize(("term", "text"), glossary().items())
def test_a_term_is_short_and_links_to_a_page(term, text):
    """One or two sentences, then one link to the documentation; a link's name is a name of this PyTorch."""
    _, _, *sentences, more = text.splitlines()
    assert 1 <= len(sentences) <= 2
    found = re.fullmatch(r"More: \[`?([^`\]]+)`?\]\((https://docs\.(?:pytorch|python)\.org/[\w./#-]+)\)\.", more)
    assert found
    name, address = found.groups()
    assert not name.startswith("torch.") or (resolves(name) and (name in address or name.rpartition(".")[2] in address))


def test_a_name_that_is_no_name_of_pytorch_is_noticed():
    """The test above can fail."""
    assert resolves("torch.Tensor.is_leaf")
    assert not resolves("torch.Tensor.is_leave")


def resolves(name: str) -> bool:
    """Return whether the dotted name exists in the installed PyTorch."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for attribute in parts[count:]:
            if not hasattr(found, attribute):
                return False
            found = getattr(found, attribute)
        return True
    return False


def test_the_terms_are_in_order():
    """A reader finds a term by the alphabet."""
    terms = [term.strip("`.").lower() for term in glossary()]
    assert sorted(terms) == terms
    assert len(terms) >= 35


LESSONS = [path for path in lessons(NOTEBOOKS) if path.parent.name != "start"]
LINK = re.compile(r'<a href="../start/glossary.ipynb#([^"]*)">.*?</a>')


def page(source: str) -> str:
    """Return a Markdown text as HTML, by a Markdown parser that does not know the links."""
    return str(mistune.html(source))


def words(markup: str) -> str:
    """Return HTML without its tags, with typographic quotation marks replaced."""
    return html.unescape(re.sub(r"<[^>]*>", "", markup)).replace('"', "'")


@pytest.fixture
def glossary_of_glossary_links(tmp_path):
    """A glossary of three entries."""
    path = tmp_path / "glossary.ipynb"
    titles = ("# Glossary", "## Leaf\n\nNo operation made it.", "## `.data`\n\nBlind.", "## Saved tensor")
    write(new_notebook(cells=[new_markdown_cell(title) for title in titles]), path)
    return path


@pytest.mark.parametrize("language_code", sorted(LANGUAGES))
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_every_link_leads_to_a_heading_once_in_a_lesson(path, language_code):
    """In each lesson and language, a link's anchor is JupyterLab's anchor of a heading: its words, joined by hyphens."""
    glossary_of_glossary_links = in_language(read(NOTEBOOKS / "start" / "glossary.ipynb"), language_code)
    headings = [
        heading
        for cell in glossary_of_glossary_links.cells
        for heading in re.findall(r"<h2>(.*?)</h2>", page(cell.source))
    ]
    known = {words(heading).replace(" ", "-") for heading in headings}
    cells = [cell for cell in lesson_in_language(read(path), language_code).cells if cell.cell_type == "markdown"]
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


def test_the_first_use_in_a_lesson_is_linked(glossary_of_glossary_links):
    """A plural counts, a verb of the same spelling does not; bold text and code of that name are linked, a heading is not."""
    source = "It leaves a **leaf** and leaves.\n`x.data` is not `.data`.\n\n```python\nleaf\n```\n\n## A leaf\n\nSaved tensors [leaf](x)"
    lesson = new_notebook(cells=[new_markdown_cell(source), new_code_cell("leaf"), new_markdown_cell("Two leaves.")])
    linked = with_glossary_links(lesson, glossary_of_glossary_links)
    to = "(../start/glossary.ipynb#"
    expected = source.replace("**leaf**", f"[**leaf**]{to}Leaf)").replace(" `.data`", f" [`.data`]{to}.data)")
    expected = expected.replace("Saved tensors", f"[Saved tensors]{to}Saved-tensor)")
    assert [expected, "leaf", "Two leaves."] == [cell.source for cell in linked.cells]
    assert lesson == without_glossary_links(linked)


@pytest.mark.parametrize(("source", "linked"), [
    ("一个**叶子张量**。", "一个[**叶子张量**](#)。"),
    ("**甲**，**叶子张量的梯度**，*乙*", "**甲**，[**叶子张量的梯度**](#)，*乙*"),
    ("`a * b` 与*叶子张量*，`c * d`", "`a * b` 与[*叶子张量*](#)，`c * d`"),
    ("**不是叶子张量的那一个**", "**不是[叶子张量](#)的那一个**"),
])  # fmt: skip
def test_stress_is_inside_a_link(glossary_of_glossary_links, source, linked):
    """A page does not show an asterisk: next to a Chinese letter, asterisks around a link would not be emphasis."""
    lesson = new_notebook(cells=[new_markdown_cell(source)], metadata={METADATA: "zh-CN"})
    found = with_glossary_links(lesson, glossary_of_glossary_links)
    assert linked == re.sub(r"\(\.\.[^)]*\)", "(#)", found.cells[0].source)
    assert lesson == without_glossary_links(found)


@pytest.mark.parametrize("language_code", sorted(LANGUAGES))
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_no_page_shows_an_asterisk(path, language_code):
    """Emphasis in a lesson is rendered in each language, outside of code and formulas."""
    cells = [cell for cell in lesson_in_language(read(path), language_code).cells if cell.cell_type == "markdown"]
    for cell in cells:
        shown = re.sub(r"<(pre|code)\b.*?</\1>|\$[^$]*\$", "", page(cell.source), flags=re.DOTALL)
        assert "*" not in shown


def test_a_course_without_a_glossary_has_no_links(tmp_path):
    """Another teacher's notebooks stay as they are."""
    lesson = new_notebook(cells=[new_markdown_cell("A leaf.")])
    assert lesson == with_glossary_links(lesson, tmp_path / "glossary.ipynb")
