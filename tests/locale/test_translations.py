"""The course in other languages: complete, with the same code and marks; texts that students read are marked for translation."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages import Catalog
from babel.messages.pofile import write_po
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.course.canonical import canonical, read
from autograder.course.catalogue import lessons as known_lessons
from autograder.course.paths import NOTEBOOKS, lessons
from autograder.locale import languages
from autograder.locale.languages import LANGUAGES, METADATA, SOURCE, language, language_of_file, use_language
from autograder.locale.line_breaks import join_wide
from autograder.locale.notebook_translation import texts, translate_notebook
from autograder.locale.translations import (
    FOLDER,
    LanguageError,
    known_language,
    po_files,
    read_po,
    texts_in,
    translated,
)
from autograder.requirements import PACKAGE
from autograder.view.assets import front_end_texts
from tests.translations.__main__ import update
from tests.translations.collect import MARKS, messages_in_file, spoken_in, templates
from tests.translations.readme import LINK, SOURCE_FILE, readme_file, readme_in

TRANSLATIONS = sorted(LANGUAGES.keys() - {SOURCE})
PAGES = lessons(NOTEBOOKS)
# What a translation takes over as it is: code, the targets of links, placeholders, and tags.
QUOTED = re.compile(
    r'"[^"]*"|^\|.*$|\*one of the variables[^*]*\*', re.MULTILINE
)  # PyTorch's own messages, and lines of code
KEPT = re.compile(r"`[^`\n]+`|\]\([^)]+\)|\{\w*\}|</?\w+[^>]*>")


PICTURE = {
    r"\bsaved v(?P<saved>\d), now v(?P<version>\d)": "saved v{saved}, now v{version}",
    r"(?P<before>\[[^`]*) became (?P<after>[^`]*\])": "{before} became {after}",
}
"""Quotes of a picture in lessons, which is translated as well."""


def quoted(text: str) -> list[str]:
    """Return the quotes of pictures in an English text as the picture says them in the language that is spoken."""
    return [
        translated(words, **found.groupdict()) for form, words in PICTURE.items() for found in re.finditer(form, text)
    ]


def kept(text: str) -> Counter[str]:
    """Return the parts that a translation keeps unchanged, without quotes of pictures."""
    return Counter(one for one in KEPT.findall(text) if not re.match(r"`\[\S* \w+ \[\S*\]`$", one))


def marked(text: str) -> str:
    """Return a placeholder for a translation, with the same number of lines."""
    return "\n".join(f"«{line}»" for line in text.split("\n"))


def program(cell: NotebookNode) -> str:
    """Return a code cell's syntax tree; magics are compared as text."""
    magic, _, code = cell.source.partition("\n") if cell.source.startswith("%%") else ("", "", cell.source)
    code = "\n".join(f"# {line}" if line.lstrip().startswith(("%", "!")) else line for line in code.split("\n"))
    return magic + ast.dump(ast.parse(code))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_translated_code_is_the_same_program(path: Path) -> None:
    """For any translation, each code cell keeps its syntax tree, and each cell its id and its marks."""
    original = read(path)
    found = translate_notebook(original, "zh-CN", marked)
    assert any("«" in cell.source for cell in found.cells)
    for before, after in zip(original.cells, found.cells, strict=True):
        assert (before.id, before.cell_type) == (after.id, after.cell_type)
        assert before.metadata.get("nbgrader", {}).get("points") == after.metadata.get("nbgrader", {}).get("points")
        if before.cell_type == "code":
            assert program(before) == program(after)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_text_without_a_translation_stays(path: Path) -> None:
    """A notebook whose texts are all kept is the same notebook, but for the language that it names."""
    original = read(path)
    found = translate_notebook(original, "zh-CN", lambda text: text)
    assert [cell.source for cell in found.cells] == [cell.source for cell in original.cells]
    assert canonical(found).metadata == {**canonical(original).metadata, METADATA: "zh-CN"}


def test_prose_and_comments_are_texts_and_code_is_not() -> None:
    """Paragraphs are separate, comments below each other are one text, and strings, fenced code and stubs are left out."""
    notebook = new_notebook(
        cells=[
            new_markdown_cell(
                "# Title\n\nOne line,\nand another.\n\n```python\nx = 1  # kept\n\ny = 2\n```\nAfter it."
            ),
            new_code_cell("# The danger,\n# then the guard.\nx = 1  # beside\ntext = '# no comment'\n# YOUR CODE HERE"),
            new_code_cell("%%explain\nx = 1  # below a magic"),
            new_code_cell("this is not Python # at all"),
        ]
    )
    found = [
        "# Title",
        "One line,\nand another.",
        "After it.",
        "The danger,\nthen the guard.",
        "beside",
        "below a magic",
    ]
    assert list(texts(notebook)) == [*found, "at all"]


def test_a_longer_translation_of_a_comment_stays_a_comment() -> None:
    """A translation may have more lines than the comment, inside a block too."""
    notebook = new_notebook(cells=[new_code_cell("def f():\n    # why\n    return 1  # one")])
    found = translate_notebook(notebook, "zh-CN", lambda text: f"{text}\nmore").cells[0].source
    assert found == "def f():\n    # why\n    # more\n    return 1  # one\n              # more"


def test_nbgrader_takes_no_translated_cell_for_a_changed_one() -> None:
    """A locked cell's checksum is that of its translated text, by nbgrader's own function."""
    from nbgrader.utils import compute_checksum

    found = translate_notebook(
        read(NOTEBOOKS / "02_mutating_a_saved_tensor/02_mutating_a_saved_tensor.ipynb"), "zh-CN", marked
    )
    locked = [cell for cell in found.cells if "checksum" in cell.metadata.get("nbgrader", {})]
    assert locked
    assert all(cell.metadata.nbgrader["checksum"] == compute_checksum(cell) for cell in locked)


@pytest.mark.parametrize("spoken", TRANSLATIONS)
def test_every_text_of_the_course_is_in_the_po_files(spoken: str) -> None:
    """`python -m tests.translations` would not add or remove any text."""
    folder = FOLDER / spoken.replace("-", "_")
    stored = {
        file.stem: {(message.context, message.id) for message in read_po(file) if message.id}
        for file in po_files(spoken)
    }
    wanted = {
        name: {(message.context, message.id) for message in catalog if message.id}
        for name, catalog in templates().items()
    }
    assert stored == wanted, f"run `python -m tests.translations` and translate what is new in {folder.name}"


@pytest.mark.parametrize("spoken", TRANSLATIONS)
def test_every_text_is_translated_and_none_is_fuzzy(spoken: str) -> None:
    """100 %: each text has a translation, made from the text as it is now."""
    messages = [message for file in po_files(spoken) for message in read_po(file) if message.id]
    assert [message.id for message in messages if message.fuzzy or not message.string] == []


@pytest.mark.parametrize("spoken", TRANSLATIONS)
def test_translations_keep_code_links_and_placeholders(spoken: str) -> None:
    """Inline code, the targets of links, tags and placeholders are the same in the text and its translation."""
    different = {
        text: (kept(text) - kept(other), kept(other) - kept(text))
        for text, other in texts_in(spoken).items()
        if kept(text) != kept(other)
    }
    assert different == {}


@pytest.mark.parametrize("spoken", TRANSLATIONS)
def test_quotes_of_pictures_are_as_the_picture_says_them(spoken: str) -> None:
    """If a lesson quotes its picture, the translated lesson quotes the translated picture."""
    with use_language(spoken):
        wrong = [
            (other, quote)
            for text, other in texts_in(spoken).items()
            for quote in quoted(text)
            if "{" not in text and quote not in other
        ]
    assert wrong == []


@pytest.mark.parametrize("spoken", TRANSLATIONS)
def test_the_readme_has_the_same_commands(spoken: str) -> None:
    """It is what `python -m tests.translations` writes; its code is that of README.md, and every link leads to a file."""
    page, original = readme_file(spoken).read_text("utf-8"), SOURCE_FILE.read_text("utf-8")
    assert page == readme_in(spoken), "run `python -m tests.translations`"
    fences = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
    assert fences.findall(page) == fences.findall(original)
    missing = [link for link in LINK.findall(page) if not (readme_file(spoken).parent / link).exists()]
    assert missing == []
    assert f"docs/{readme_file(spoken).name}" in original


def test_hints_and_titles_follow_the_language() -> None:
    """The catalogue is read in the reader's language, and in English elsewhere; a text that is nowhere stays English."""
    english = known_lessons()
    with use_language("zh-CN"):
        chinese, unknown = known_lessons(), translated("a text that no lesson has")
    assert unknown == "a text that no lesson has"
    assert [lesson.name for lesson in chinese] == [lesson.name for lesson in english]
    for lesson, other in zip(english, chinese, strict=True):
        assert other.title == texts_in("zh-CN").get(lesson.title, lesson.title)
        for exercise, same in zip(lesson.exercises, other.exercises, strict=True):
            assert same.id == exercise.id
            assert same.hints == tuple(texts_in("zh-CN").get(hint, hint) for hint in exercise.hints)
    assert language() == SOURCE


def test_a_language_that_is_not_there_is_one_sentence() -> None:
    """Case and underscores are tolerated; any other language is named with those that there are."""
    assert known_language("ZH_cn") == "zh-CN"
    with pytest.raises(LanguageError, match=r"not translated into 'fr'. It has en, zh-CN; docs/translating.md"):
        known_language("fr")


@pytest.mark.parametrize("name", ["zh-CN", "zh_CN", "zh-cn"])
def test_the_environment_names_a_language_as_the_option_does(monkeypatch, name: str) -> None:
    """AUTOGRADER_LANGUAGE is read like `--language`: case and underscores do not matter."""
    monkeypatch.setenv(languages.VARIABLE, name)
    languages._chosen.cache_clear()
    try:
        assert "zh-CN" == language()
    finally:
        languages._chosen.cache_clear()


def terms_of(spoken: str) -> dict:
    """Return the language's table of terms."""
    return tomllib.loads((FOLDER / spoken.replace("-", "_") / "terms.toml").read_text("utf-8"))


@pytest.mark.parametrize("spoken", TRANSLATIONS)
def test_terms_are_said_alike_everywhere(spoken: str) -> None:
    """If the English has a term of terms.toml outside code, its translation contains one of the words given there."""
    terms = {term: words for term, words in terms_of(spoken).items() if isinstance(words, str)}
    different = [
        (term, text, other)
        for text, other in texts_in(spoken).items()
        for term, words in terms.items()
        if re.search(rf"\b{term}s?\b", QUOTED.sub("", KEPT.sub("", text)), re.IGNORECASE)
        and not any(word in other for word in words.split("|"))
    ]
    assert different == []


@pytest.mark.parametrize("spoken", TRANSLATIONS)
def test_translations_contain_no_word_to_avoid(spoken: str) -> None:
    """No translation contains a word that terms.toml replaces with another one."""
    avoided = terms_of(spoken)["avoid"]
    found = [
        (word, instead, other)
        for other in texts_in(spoken).values()
        for word, instead in avoided.items()
        if re.search(word, other)
    ]
    assert found == []


def test_lines_of_chinese_are_joined() -> None:
    """A browser shows a line end as a blank, which Chinese has not; items, rows, headings and English lines stay as they are."""
    assert join_wide("一行。\n`x` 是\n名字，\n*那*是 y\n的值") == "一行。`x` 是名字，*那*是 y\n的值"
    assert (
        join_wide("1. **一。** 运行。\n   然后看。\n2. 二。\n- 三：\n| 四。")
        == "1. **一。** 运行。然后看。\n2. 二。\n- 三：\n| 四。"
    )
    assert join_wide("One line,\nand another.") == "One line,\nand another."
    assert not re.search(r"[，。；：？！]\n(?=[\w`])(?!\d+\.)", readme_in("zh-CN"))


def test_chinese_punctuation_is_full_width() -> None:
    """Punctuation between Chinese words and code is Chinese; a name's empty parentheses are code, so they are not."""
    bare = {other: KEPT.sub("¤", QUOTED.sub("¤", other)) for other in texts_in("zh-CN").values()}
    half = re.compile(r"[\w）*¤][,;?!](?=[\u4e00-\u9fff*¤]|$)|[\u4e00-\u9fff）][:.](?![\w.])|[A-Za-z_]（）")
    found = {other: half.findall(text) for other, text in bare.items() if re.search(r"[\u4e00-\u9fff]", other)}
    assert {other: marks for other, marks in found.items() if marks} == {}


def test_a_text_is_found_wherever_it_is_marked(tmp_path: Path) -> None:
    """In a call across lines, by its position among the arguments, and inside an f-string; names and empty texts are not."""
    file = tmp_path / "said.py"
    file.write_text(
        "translated(\n    'one '\n    'text', a=1)\nhtml = f'<p>{translated(\"inside\")}</p>'\n"
        "count_noun(3, 'line', 'lines')\ntranslated(name)\ntranslated('')\nMessage('a.kept|kept', n=1)\nkept = 'b.text|of {n} | '\n"
    )
    assert ["one text", "inside", "line", "lines"] == spoken_in(file)
    assert [("a.kept", "kept"), ("b.text", "of {n} | ")] == messages_in_file(file)


def test_a_reworded_message_keeps_its_translation(tmp_path: Path) -> None:
    """It is marked as fuzzy for the translator; another text with another id is not taken for it."""
    file, before, after = tmp_path / "sentences.po", Catalog(locale="zh_CN"), Catalog()
    before.add("it ended in {cell}", "在 {cell} 结束", context="run.ended")
    after.add("the program has come to its end in {cell}", context="run.ended")
    after.add("it ended in {cell}, too", context="run.other")
    with file.open("wb") as stream:
        write_po(stream, before)
    update(file, after, "zh-CN")
    found = {message.context: (message.string, message.fuzzy) for message in read_po(file) if message.id}
    assert found["run.ended"] == ("在 {cell} 结束", True)
    assert found["run.other"][0] == ""


@pytest.mark.parametrize("spoken", TRANSLATIONS)
def test_a_button_is_called_what_stands_on_it(spoken: str) -> None:
    """If a text names a button of the picture or of the cards, its translation names the translated button."""
    labels = {text.casefold() for text in front_end_texts()}
    left = [
        named
        for text in texts_in(spoken).values()
        for named in re.findall(r"(?<!\*)\*([^*\n]+)\*(?!\*)", text)
        if named.casefold() in labels
    ]
    assert left == []


def test_a_notebook_that_is_being_saved_still_names_its_language(tmp_path, monkeypatch):
    """If the file is incomplete, it is read again completely; a file that stays incomplete is read as English."""
    path = tmp_path / "lesson.ipynb"
    whole = '{"metadata": {"autograder_language": "zh-CN"}}'
    path.write_text(whole[:20], "utf-8")
    assert language_of_file(path) == SOURCE
    monkeypatch.setattr(languages.time, "sleep", lambda _: path.write_text(whole, "utf-8"))
    assert language_of_file(path) == "zh-CN"


WORDS = re.compile(r"[A-Za-z][a-z]*,? [a-z]+,? [a-z]{2,}")
"""Three words in a row."""

CODE = re.compile(r"^import |\{ |: \dpx", re.MULTILINE)
"""Part of a program or a style sheet."""

SILENT = (ast.Raise, ast.Compare)
"""Errors for authors and callers, and texts that are compared with the output of other programs."""

NO_SENTENCES = {
    "out of place", "the tensor itself",  # names of forms, which `FormName` lists for translation
    "write during backward", "write into a passed gradient", "write into a kept gradient", "write before recomputation",
    "gradient that no optimizer uses", "gradient of another loss",
    "modified by an inplace operation", "does not have a grad_fn", "returns multiple views", "is not an nn.Module",
    "backward through the graph a second time", r"is at version \d+; expected version \d+",
    "## The lesson for each message", "/* end of drawing",  # marks in files of this project
}  # fmt: skip
"""Names of kinds and forms, parts of PyTorch's and this project's own messages that are looked for, and marks in files."""

FILES = [
    PACKAGE / "course" / "summary.py",
    *(PACKAGE / "course" / "learner").glob("*.py"),
    *(PACKAGE / "course" / "practice").glob("*.py"),
    *(PACKAGE / "check").rglob("*.py"),
    *(PACKAGE / "view").rglob("*.py"),
]


def unmarked(source: str) -> Iterator[str]:
    """Yield the texts of a module that resemble a sentence and are not marked by a call; docstrings are ignored."""
    tree = ast.parse(source)
    seen = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        named = isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", ""))
        if named in MARKS or named == "compile" or isinstance(node, SILENT):
            seen |= {id(inner) for inner in ast.walk(node)}
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    for text in (text.value for text in texts if id(text) not in seen):
        if WORDS.search(text) and text not in NO_SENTENCES and not CODE.search(text):
            yield text


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_no_sentence_of_a_lesson_is_without_a_mark(file: Path) -> None:
    """Each sentence in a module that a lesson shows is handed to `translated`, or marked for it."""
    assert [] == list(unmarked(file.read_text("utf-8")))


def test_a_sentence_without_a_mark_is_found() -> None:
    """In an f-string and in a plain text; not in a docstring, an error, a comparison, or a marked text."""
    source = '''"""A docstring of a module."""
print(f"{name} cannot be read")
print(translated("this one is marked"))
kept = translatable("this one is, too")
if "a message of PyTorch" in text:
    raise ValueError("an error for the author")
'''
    assert [" cannot be read"] == list(unmarked(source))
