"""The printable page is measured, agrees with plain PyTorch, and fits one sheet of paper; the glossary's links lead somewhere."""

import importlib
import re

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the name that the page uses

from autograder.course.canonical import read
from autograder.course.paths import SOLUTIONS
from autograder.course.summary import OPERATIONS, SummaryPage
from autograder.locale.languages import speaking
from autograder.tape.recording.verdict_types import OUTCOMES


@pytest.fixture(scope="module")
def sheet() -> SummaryPage:
    """The page, measured once."""
    return SummaryPage()


def test_the_page_is_in_the_reader_s_language():
    """In Chinese no English sentence is left but PyTorch's own errors; the measured part is the same."""
    with speaking("zh-CN"):
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
