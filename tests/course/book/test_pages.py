"""The book's command and pages: answers are not visible before the question, every link has a target, every part an address."""

from __future__ import annotations

import io
import re
from pathlib import Path

import msgspec
import pytest
from bs4 import BeautifulSoup
from PIL import Image

from autograder.course.book.block_pages import BlockPages, packed_script
from autograder.course.book.book_site import page_templates
from autograder.course.book.lesson_blocks import Choice, CodeBlock, ProseBlock, QuestionBlock
from autograder.course.book.make_book import (
    MARKER_FILE,
    broken_links,
    make_book,
    require_addresses,
    shared_files,
    write_book,
)
from autograder.course.book.markdown_text import markdown_html, page_address, search_entry, verdict_html
from autograder.errors import InputError, UnfinishedError
from autograder.locale.translations import LanguageError
from tests.course.book.small_course import NAME, SECRET
from tests.course.book.unpacking import unpacked


def anchors(page):
    """Return the ids of a page's elements but for headings, which are words."""
    return [one["id"] for one in BeautifulSoup(str(page), "html.parser").find_all(id=True) if one.name[0] != "h"]


def test_the_book_in_chinese_is_the_same_book(book, chinese_book):
    """The same files and addresses, with the page's own words, the question and the picture in Chinese, and a way to the other one."""
    assert book.keys() == chinese_book.keys()
    for path in (f"{NAME}.html", "index.html", "jupyterlab.html", f"outcomes/{NAME}.html"):
        assert anchors(book[path]) == anchors(chinese_book[path]), path
    page = BeautifulSoup(str(chinese_book[f"{NAME}.html"]), "html.parser")
    assert "zh-CN" == page.html["lang"]
    assert "这个程序会怎样？" == page.select_one("#prediction_late .asked").get_text()
    assert "第 " in unpacked(chinese_book[f"pictures/{NAME}/seen.js"])["scene"]["frames"][0]["fact"]
    assert "保存" in str(chinese_book[f"pictures/{NAME}/seen.svg"])
    assert f"../en/{NAME}.html" == page.select_one("nav [hreflang=en]")["href"]


def test_a_lesson_tells_no_answer(book):
    """The page, the search and the scripts do not contain the verdict, or the text after the question, in plain text."""
    plain = {
        path: str(text)
        for path, text in book.items()
        if not path.startswith(("outcomes/", "cards/")) and not path.endswith(".svg")
    }
    for told in (SECRET, "something else happened", "It was raises-backward", "as you predicted"):
        assert [] == [path for path, text in plain.items() if told in text]


def test_the_answer_comes_with_the_question_s_script(book):
    """The packed script has a verdict for each choice, in order, and the text that follows; the page has the question."""
    content = unpacked(str(book[f"pictures/{NAME}/prediction_late.js"]))
    assert [False, True, False, False] == [verdict["right"] for verdict in content["verdicts"]]
    assert "It was raises-backward" in content["verdicts"][0]["html"]
    assert SECRET in content["rest"]
    assert 'id="seen"' in content["rest"]
    page = BeautifulSoup(str(book[f"{NAME}.html"]), "html.parser")
    assert ["raises-forward", "raises-backward", "correct", "silently-wrong"] == [
        b.get_text() for b in page.select("[data-choice] b")
    ]


def test_a_line_of_facts_ends_with_a_fact(book):
    """If the score is not filled in by a script, the separator before it is not shown either."""
    for path in (f"{NAME}.html", "index.html"):
        facts = BeautifulSoup(str(book[path]), "html.parser").select(".facts")
        assert facts
        assert [] == [one for one in facts if "·" in one.get_text().strip()[-1:]]


def test_who_has_no_scripts_follows_a_link(book):
    """The page of outcomes holds the whole lesson with its static pictures, and each question leads there."""
    page = BeautifulSoup(str(book[f"{NAME}.html"]), "html.parser")
    assert page.select_one("noscript a")["href"] == f"outcomes/{NAME}.html#prediction_late"
    whole = str(book[f"outcomes/{NAME}.html"])
    assert SECRET in whole
    assert f'src="../pictures/{NAME}/prediction_late.svg"' in whole


def test_every_anchor_stands_in_the_first_page(book):
    """A link to a section, a question or a picture finds its place before any question is answered."""
    page = BeautifulSoup(str(book[f"{NAME}.html"]), "html.parser")
    known = {element["id"] for element in page.select("[id]")}
    assert {"opening", "late-text", "prediction_late", "told", "seen", "Repair-it", "repair"} <= known


def test_a_page_of_many_words_begins_with_its_contents(book):
    """The glossary announces a table of all terms, which the page contains, as in a lesson."""
    page = BeautifulSoup(str(book["glossary.html"]), "html.parser")
    assert ["#leaf"] == [link["href"] for link in page.select("nav.contents a")]


def test_an_anchor_stands_once_in_a_page(book, chinese_book):
    """Else an address leads to the first of two: a cell is often called as the program in it, or as its heading."""
    for path in (f"{NAME}.html", f"outcomes/{NAME}.html", "glossary.html"):
        for page in (book[path], chinese_book[path]):
            found = [one["id"] for one in BeautifulSoup(str(page), "html.parser").find_all(id=True)]
            assert sorted(set(found)) == sorted(found)
    assert 'figure class="picture" id="seen"' in str(book[f"outcomes/{NAME}.html"])
    assert 'class="prose" id="Repair-it"' in str(book[f"{NAME}.html"])


def test_an_exercise_names_the_command_that_opens_it(book, chinese_book):
    """The command and the page that explains it appear next to the released code; a Chinese page opens the Chinese lesson."""
    task = BeautifulSoup(str(book[f"{NAME}.html"]), "html.parser").select_one("#repair")
    assert f"python3 -m autograder lab {NAME}" == task.select_one(".command code").get_text()
    assert "jupyterlab.html" == task.select_one("a")["href"]
    assert "a += 1" in task.get_text()
    for path in (f"{NAME}.html", "jupyterlab.html"):
        codes = BeautifulSoup(str(chinese_book[path]), "html.parser").select("code")
        assert f"python3 -m autograder lab {NAME} --language zh-CN" in [code.get_text() for code in codes]


def test_links_within_the_book_are_checked(book):
    """A finished book has no broken link, and a missing file or anchor is reported."""
    files = {f"en/{path}": text for path, text in book.items()} | shared_files()
    assert [] == broken_links(files)
    del files["en/atlas.html"]
    assert "en/index.html: atlas.html" in broken_links(files)
    files["en/glossary.html"] = '<a href="index.html#nowhere">'
    assert ["en/glossary.html: index.html#nowhere"] == [
        line for line in broken_links(files) if "glossary.html:" in line
    ]


def test_a_preview_shows_the_question_and_not_the_answer(book):
    """A link preview has a picture of the size that messengers use, at its full address."""
    page = str(book[f"{NAME}.html"])
    assert f'content="https://example.org/book/en/cards/{NAME}.png"' in page
    assert (1200, 630) == Image.open(io.BytesIO(book[f"cards/{NAME}.png"])).size


def test_pages_ask_nobody_else(book):
    """No page loads a script, a style, a picture or a font from another place."""
    loads = r'<(?:script|img|iframe|link rel="(?:stylesheet|icon|preload)")[^>]*?(?:src|href)="([^"]+)"'
    loaded = {url for path, text in book.items() if path.endswith(".html") for url in re.findall(loads, str(text))}
    assert "book.css" in {url.rpartition("/")[2] for url in loaded}
    assert [] == [url for url in loaded if re.match(r"(https?:)?//", url)]


def test_links_of_notebooks_lead_to_pages():
    """A link to another notebook, or into it, becomes a link to its page; others stay."""
    assert "../glossary.html#Saved-tensor" == page_address("../start/glossary.ipynb#Saved-tensor", "../")
    assert "start.html" == page_address("../start/start.ipynb")
    assert "https://a.org/b.ipynb" == page_address("https://a.org/b.ipynb")
    assert '<a href="03_x.html">' in markdown_html("[next](../03_x/03_x.ipynb)")


def test_markdown_becomes_html():
    """Formulas are MathML, Python has colors, and code shows its signs as they are."""
    assert "<msup>" in markdown_html("so $d^2$ is")
    assert '<span class="keyword">for</span>' in markdown_html("```python\nfor x in y: pass\n```")
    assert "<code>a&lt;b</code>" in markdown_html("`a<b`")


def test_a_message_is_wrapped_by_the_reader_s_screen():
    """The rows of a check's message are put together again, each under its label, with code as code."""
    text = "x: not this line\n  saw       `a`, which wrote\n            nothing\n  look at   the memory"
    assert (
        "<p>X: not this line</p><p><b>saw:</b> <code>a</code>, which wrote nothing</p><p><b>look at:</b> the memory</p>"
        == verdict_html(text)
    )


def test_the_lines_of_a_program_are_the_choices(blocks):
    """A line is named in the program itself; a line that repeats an earlier one is not a choice. Paper shows the plain program."""
    asked = next(block for block in blocks if isinstance(block, QuestionBlock))
    lines = ["def two(x):", "x.add_(1)", "y = x * x", "x.add_(1)", "return y"]
    choices = (Choice("x.add_(1)", "", True), Choice("y = x * x", "", False))
    asked = msgspec.structs.replace(asked, kind="line", source="\n    ".join(lines), choices=choices, table=None)
    [section] = BlockPages(page_templates(), "small").sections([asked])
    shown = BeautifulSoup(section.html, "html.parser")
    assert lines == [line.get_text().strip() for line in shown.select(".choices code")]
    assert 1 == len(shown.select(".program"))
    assert {"0": lines[1], "1": lines[2]} == {
        button["data-choice"]: button.get_text().strip() for button in shown.select("button[data-choice]")
    }


def test_an_output_to_predict_is_folded():
    """Below a text that asks for a prediction, the output of a program is shown when the reader unfolds it."""
    code = CodeBlock("c", "print(1)", "1")
    pages = [
        BlockPages(page_templates(), "small").sections([ProseBlock("p", "What?", asks), code])[0]
        for asks in (True, False)
    ]
    assert ["1", None] == [
        (found := BeautifulSoup(page.html, "html.parser").select_one("details pre")) and found.get_text()
        for page in pages
    ]


def test_what_a_cell_displays_as_text_is_text():
    """A displayed object without an HTML form appears on the page with all of its characters."""
    shown = BlockPages(page_templates(), "small").sections(
        [CodeBlock("c", "", displays=({"text/plain": "<class 'int'>"},))]
    )
    assert "<class 'int'>" == BeautifulSoup(shown[0].html, "html.parser").select_one("pre.printed").get_text()


def test_the_search_finds_words_and_no_markup():
    """An entry has an address, a title and plain words, whole where a link or code is part of a line; a script cannot end early.

    The synonyms are those of its whole text, of which the entry does not show the part after a question.
    """
    first = search_entry("a.html#b", "B", "<p>two <code>words</code> &lt;/script&gt;</p>")
    second = search_entry("a.html#c", "叶子", "<h2>叶子</h2><p>需要<a href='#g'>梯度</a>的<code>w</code></p>")
    third = search_entry("a.html#d", "D", "", "Two frames of a GAN")
    assert ("a.html#b", "B", "two words </script>") == first[:3]
    assert ("a.html#c", "叶子", "需要梯度的w") == second[:3]
    assert "is_leaf" in second[3]
    assert "discriminator" in third[4]
    assert "RNN" not in third[4]


def test_a_script_gives_back_what_was_packed():
    """Packing is a matter of form; a name with quotes does no harm."""
    assert {"a": ["é", 1]} == unpacked(packed_script('x"y', {"a": ["é", 1]}))


def test_a_page_shows_code_as_code(book, chinese_book):
    """Text between backticks is code on the page; the search, which shows plain words, does not show backticks either."""
    for files in (book, chinese_book):
        for path in (path for path in files if path.endswith(".html")):
            page = BeautifulSoup(str(files[path]), "html.parser")
            for code in page.select("pre, code, script"):
                code.decompose()
            assert "`" not in page.get_text(), path
        assert "<dt><code>addmm</code></dt>" in str(files["atlas.html"])
        assert "`" not in str(files["search.js"])


def test_other_people_s_folders_stay_as_they_are(tmp_path):
    """A folder with other files is refused before anything is recorded, and is not changed."""
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="contains files that are not part of a book"):
        make_book(tmp_path)
    assert ["thesis.txt"] == [file.name for file in tmp_path.iterdir()]
    with pytest.raises(InputError, match="is a file"):
        make_book(tmp_path / "thesis.txt")


@pytest.mark.parametrize(("given", "said"), [
    ("loop", "The book cannot be written to .*loop: Too many levels of symbolic links"),
    ("thesis.txt/site", "The book cannot be written to .*site: Not a directory"),
    ("gitbook", "contains files that are not part of a book"),
])  # fmt: skip
def test_a_place_that_cannot_be_used_is_named_at_once(tmp_path, given, said):
    """A link to itself, a folder in a file, and another program's `book.json`: one sentence, and everything is as it was."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "thesis.txt").write_text("mine")
    (tmp_path / "gitbook").mkdir()
    (tmp_path / "gitbook" / MARKER_FILE).write_text('{"title": "mine"}')
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=said):
        make_book(tmp_path / given)
    assert before == sorted(tmp_path.rglob("*"))


def test_a_book_is_replaced_where_a_link_or_dots_lead_to_it(tmp_path, monkeypatch):
    """The link stays a link, and the current folder can be replaced like any other."""
    write_book(tmp_path / "book", {"page.html": "old"})
    (tmp_path / "link").symlink_to(tmp_path / "book")
    write_book(tmp_path / "link", {"page.html": "new"})
    assert (tmp_path / "link").is_symlink()
    assert "new" == (tmp_path / "book" / "page.html").read_text()
    monkeypatch.chdir(tmp_path / "book")
    write_book(Path(), {"page.html": "newest"})
    assert "newest" == (tmp_path / "book" / "page.html").read_text()


def test_a_language_that_is_not_there_is_named(tmp_path):
    """The sentence lists the available languages, and the folder is not created."""
    with pytest.raises(LanguageError, match="The course is not translated into 'xx'. It has en, zh-CN"):
        make_book(tmp_path / "new", "xx")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "given", ["example.org/book", "ftp://example.org", "https://", "https://a.org/ b", "git@a.org:b.git"]
)
@pytest.mark.parametrize("option", ["address", "repository"])
def test_what_is_no_web_address_is_refused_at_once(tmp_path, option, given):
    """In one sentence that names the option, before a folder is made; readers could not follow it."""
    with pytest.raises(InputError, match=f"is not a web address for --{option}. Write one such as https://"):
        make_book(tmp_path / "new", **{option: given})
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "given",
    ["", "https://a.github.io/b", "http://localhost:8000/", "https://[::1]/x", "https://git.example.org/~me/c-d.git"],
)
def test_a_web_address_is_taken(given):
    """Servers of one's own, ports and home folders among them."""
    require_addresses(given, given)


def test_an_older_book_is_replaced_as_a_whole(tmp_path):
    """Pages that the new book lacks are gone; a folder that cannot be made leaves the old one."""
    folder = tmp_path / "book"
    write_book(folder, {"en/index.html": "old", "en/gone.html": "old"})
    write_book(folder, {"en/index.html": "new"})
    assert {"en/index.html", MARKER_FILE} == {
        str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()
    }
    with pytest.raises(UnfinishedError, match="cannot be written"):
        write_book(folder, {"en/index.html": "newer", "en/index.html/inside": "no"})
    assert "new" == (folder / "en" / "index.html").read_text()
    assert ["book"] == [file.name for file in tmp_path.iterdir()]
