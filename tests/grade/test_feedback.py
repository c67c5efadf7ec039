# ruff: noqa: E501 - a submission's text, or a row of a table, is easier to read on one line
"""Feedback says what went wrong, hidden tests stay hidden, and HTML in outputs can do nothing."""

import nbformat
import pytest
from bs4 import BeautifulSoup
from traitlets.config import Config

from autograder.grade.batch.feedback import CoverHiddenTests, HarmlessOutputs, configure_feedback, harmless_markdown
from autograder.view import mimebundle
from tests.view.conftest import NAMES, stored

TEXT = "assert f(1) == 2\n### BEGIN HIDDEN TESTS: large numbers\nassert f(41317) == 82634\n### END HIDDEN TESTS"
ERROR = nbformat.v4.new_output(
    "error", ename="AssertionError", evalue="not 82634", traceback=["----> 3 assert f(41317) == 82634"]
)


def covered(level: str, hidden: bool = True):
    """Returns the test's cell as its feedback shows it at a level, after its error came from a hidden line or a visible one."""
    cell = nbformat.v4.new_code_cell(
        TEXT, outputs=[nbformat.from_dict(dict(ERROR))], metadata={"autograder": {"hidden": hidden}}
    )
    cover = CoverHiddenTests(config=Config(CoverHiddenTests={"level": level}))
    return cover.preprocess_cell(cell, {}, 0)[0]


@pytest.mark.parametrize(
    ("level", "told"),
    [
        ("none", "A hidden test did not pass."),
        ("name", "A hidden test did not pass: large numbers."),
        ("message", "A hidden test did not pass: large numbers.\nAssertionError: not 82634"),
    ],
)
def test_hidden_tests_are_told_as_far_as_the_teacher_wants(level, told):
    """Nothing, the name, or the message; never the code."""
    cell = covered(level)
    assert told == cell.outputs[0].text
    assert "41317" not in str(cell)
    assert "f(1) == 2" in cell.source


def test_a_visible_error_is_told_without_the_lines_around_it():
    """A traceback quotes the lines before and after it, and hidden ones may be among them."""
    cell = covered("none", hidden=False)
    assert ["AssertionError: not 82634"] == cell.outputs[0].traceback


DANGEROUS = [
    "<script>alert(1)</script>x",
    "<img src=x onerror=alert(1)>",
    "<img src='https://evil.example/track.png'>",
    '<a href="javascript:alert(1)">x</a>',
    '<a href="data:text/html,<script>alert(1)</script>">x</a>',
    "<iframe src='//evil.example'></iframe>",
    "<svg onload=alert(1)><script>alert(1)</script></svg>",
    "<style>@import 'https://evil.example'</style>",
    "<div style='background:url(https://evil.example)'>x</div>",
    "<form action='https://evil.example'><input></form>",
    "<math><mtext><img src=x onerror=alert(1)>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<object data='evil.swf'></object><embed src=evil><base href='//evil.example'><meta http-equiv=refresh content=0>",
]


@pytest.mark.parametrize("html", DANGEROUS)
@pytest.mark.parametrize("place", ["output", "markdown"])
def test_foreign_html_can_run_and_load_nothing(html, place):
    """Neither in outputs nor in texts: no script, no event handler, no URL that loads by itself."""
    from bs4 import BeautifulSoup

    if place == "output":
        cell = nbformat.v4.new_code_cell("", outputs=[nbformat.v4.new_output("display_data", {"text/html": html})])
        shown = HarmlessOutputs().preprocess_cell(cell, {}, 0)[0].outputs[0].data["text/html"]
    else:
        shown = harmless_markdown(html)
    page = BeautifulSoup(shown, "html.parser")
    forbidden = ["script", "iframe", "svg", "style", "form", "input", "object", "embed", "base", "meta", "math"]
    assert [] == page.find_all(forbidden)
    addresses = [(name, value) for tag in page.find_all(True) for name, value in tag.attrs.items()]
    bad = [
        (n, v)
        for n, v in addresses
        if n.startswith("on") or n == "style" or (n in ("src", "href") and "evil" in str(v))
    ]
    assert [] == [*bad, *((n, v) for n, v in addresses if str(v).lower().startswith(("javascript", "data:text")))]


def test_markdown_links_cannot_run_scripts():
    """`[x](javascript:…)` becomes a link that does nothing."""
    shown = harmless_markdown("[x](javascript:alert(1)) ![y](javascript:alert(1)) <javascript:alert(1)>")
    assert 'href="javascript' not in shown.lower()
    assert 'src="javascript' not in shown.lower()


def test_the_lessons_own_pictures_and_texts_stay():
    """The static picture, a table and ordinary markdown come through."""
    picture = '<img alt="a" src="data:image/svg+xml;base64,PHN2Zy8+"><details><summary>In words</summary></details>'
    table = '<table border="1"><tr><td>1</td></tr></table>'
    cell = nbformat.v4.new_code_cell(
        "", outputs=[nbformat.v4.new_output("display_data", {"text/html": picture + table})]
    )
    shown = HarmlessOutputs().preprocess_cell(cell, {}, 0)[0].outputs[0].data["text/html"]
    for kept in ('src="data:image/svg+xml;base64,PHN2Zy8+"', "<summary>", "<td>1</td>"):
        assert kept in shown
    text = harmless_markdown("# Title\n\n> a quote with `a < b` & *words*\n\n- $x > 1$")
    for kept in ("<h1>", "<blockquote>", "<code>a &lt; b</code>", "$x &gt; 1$"):
        assert kept in text


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_arrives_as_it_was_drawn(name):
    """Its data URL contains markup and a style, which are not part of the page and stay as they are."""
    drawn = mimebundle(stored(name))["text/html"]
    cell = nbformat.v4.new_code_cell("", outputs=[nbformat.v4.new_output("display_data", {"text/html": drawn})])
    shown = HarmlessOutputs().preprocess_cell(cell, {}, 0)[0].outputs[0].data["text/html"]
    addresses = [BeautifulSoup(html, "html.parser").img["src"] for html in (drawn, shown)]
    assert "<style>" in addresses[0]
    assert addresses[0] == addresses[1]


def test_plain_nbgrader_writes_the_same_pages():
    """One function configures both, so `nbgrader generate_feedback` leaks no more than we do."""
    config = Config()
    configure_feedback(config, "none")
    names = [preprocessor.__name__ for preprocessor in config.GenerateFeedback.preprocessors]
    assert ["GetGrades", "CoverHiddenTests", "HarmlessOutputs", "CSSHTMLHeaderPreprocessor"] == names
