"""The language: one sentence a line, sentences that a second-language reader follows, one idea a code cell, plain idiom.

A linter for prose was tried on all lessons (proselint 0.16): every one of its 31 remarks was about a straight quote, a `...`
or the outcome `silently-wrong`, so it is not used. What helps a reader who learnt English later is short sentences.
"""

import io
import re
import tokenize
from pathlib import Path

import pytest

from autograder.course.author_cells import AUTHOR_TAGS
from autograder.course.canonical import read
from autograder.course.paths import ROOT, SOLUTIONS, lessons
from tests.lessons.cells import SHOWN

SOURCES = [pytest.param(path, id=path.parent.name) for path in lessons(SOLUTIONS)]
LONGEST_SENTENCE = 30  # words
LONGEST_CELL = 12  # lines
SMALL = 3  # words: "Stuck?" and "Plan 45 minutes." may share a line with their neighbour
CODE = re.compile(r"```.*?```|`[^`]*`|\$[^$]*\$|\]\([^)]*\)", re.DOTALL)
LIST_MARK = re.compile(r"^(\d+\.|[-*]) ")
SENTENCE_END = re.compile(r"""[.!?]["'”)*_]* +(?=["'“(*_]*[A-Z])""")
UNFINISHED = re.compile(r"""[\w,`*)"'”]$""")

# Turns of phrase that a native reader stumbles over, each with what to write instead.
TRANSLATED = {
    r"\b(comes?|came) to\b": "is, has the outcome",
    r"\bmend(s|ed|ing)?\b": "fix, repair",
    r"\bby other means\b": "another way",
    r"\banew\b": "again, new",
    r"\b(larger|another) dress\b": "form",
    r"\ba word to\b": "a message to",
    r"\bspoilt\b": "overwritten, broken",
    r"\bwithout a word\b": "silently, without an error",
    r"\bin the place of\b": "instead of",
    r"\bspeaks? of\b": "mentions",
    r"\b(is|are) told\b": "is reported, gets a message",
    r"\bwhoever\b": "anyone who",
    r"\boracles agreed?\b": "the gradients are right, and what showed it",
    r"\bbehind autograd's back\b": "and autograd does not record it",
    r"\bversion \d+, and still \d+\b": "at version 0 when it was saved, and at 0 now",
}
PLAIN = (
    *("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "solutions", "autograder"),
    *("tests/check", "tests/course", "tests/grade", "tests/lessons", "tests/tape", "tests/repair", "tests/view"),
)


def prose(source: str) -> list[str]:
    """Returns the lines of a markdown cell without headings and tables, each piece of code in it as one word."""
    text = CODE.sub("code", source)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("#", "|", "<"))]
    return [LIST_MARK.sub("", line) for line in lines]


def broken_lines(source: str) -> list[str]:
    """Returns the lines that hold two sentences, and those in which a sentence goes on in the next line."""
    two = [line for line in prose(source) if len(sentences(line)) > 1]
    text = CODE.sub("code", source)
    followed = re.findall(r"^(?![#|<])(.*\S)\n(?=[a-z])", text, re.MULTILINE)
    return two + [line for line in followed if UNFINISHED.search(line)]


def sentences(line: str) -> list[str]:
    """Returns the sentences of a line, the small ones left out."""
    return [sentence for sentence in SENTENCE_END.split(line) if len(sentence.split()) > SMALL]


def long_sentences(source: str) -> list[str]:
    """Returns the lines with more words than a reader keeps in mind; dashes and list marks are no words."""
    return [line for line in prose(source) if len(re.findall(r"\w[\w'’.-]*", line)) > LONGEST_SENTENCE]


def long_cells(cells) -> list[str]:
    """Returns the ids of code cells with too many lines; imports, checks, programs and authors' cells may be longer."""
    free = {"stub", *AUTHOR_TAGS}
    return [
        f"{cell.id}: {len(cell.source.splitlines())} lines"
        for cell in cells
        if cell.cell_type == "code"
        and not free & set(cell.metadata.get("tags", []))
        and not cell.metadata.get("nbgrader", {}).get("grade")
        and not cell.source.startswith(("import ", "from "))
        and not cell.source.startswith(tuple(f"@{name}" for name in SHOWN))
        and len([line for line in cell.source.splitlines() if line.strip()]) > LONGEST_CELL
    ]


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in lessons(SOLUTIONS)])
def test_each_line_is_one_sentence(path):
    """A change of one sentence is a change of one line, and nothing else moves in a diff."""
    broken = [line for cell in read(path).cells if cell.cell_type == "markdown" for line in broken_lines(cell.source)]
    assert [] == broken


@pytest.mark.parametrize("path", SOURCES)
def test_sentences_are_short(path):
    """No sentence is longer than a second-language reader follows at once."""
    long = [line for cell in read(path).cells if cell.cell_type == "markdown" for line in long_sentences(cell.source)]
    assert [] == long


@pytest.mark.parametrize("path", SOURCES)
def test_code_cells_are_short(path):
    """One idea a cell: at most twelve lines, where the reader is not meant to study a whole program."""
    assert [] == long_cells(read(path).cells)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("One sentence.\nAnother one.", []),
        ("You need `torch. Then` and 3.5 of it.", []),
        ("# A heading. With two", []),
        ("Stuck? Ask for one of the hints.", []),
        ("1. A sentence in a list.", []),
        ("Here is one sentence. And here is another.", ["Here is one sentence. And here is another."]),
        ('"Is it really so?" That is the second one.', ['"Is it really so?" That is the second one.']),
        ("A sentence that goes on\nin the next line.", ["A sentence that goes on"]),
        ("- an item;\n- another item.", []),
    ],
)
def test_two_sentences_in_a_line_are_found(source, expected):
    """The rule finds what it is for, and leaves code, numbers and headings alone."""
    assert expected == broken_lines(source)


def translated(text: str) -> list[str]:
    """Returns the turns of phrase in a text that a native reader stumbles over."""
    return [found[0] for phrase in TRANSLATED for found in re.finditer(phrase, " ".join(text.split()), re.IGNORECASE)]


def words_of(path: Path) -> str:
    """Returns what a person reads in a file: cells of a notebook, strings and comments of Python, else the whole text."""
    if path.suffix == ".ipynb":
        return "\n".join(cell.source for cell in read(path).cells)
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        return text
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    shown = (tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
    return "\n".join(token.string.lstrip("#") for token in tokens if token.type in shown)


@pytest.mark.parametrize("room", PLAIN)
def test_no_phrase_sounds_translated(room):
    """Prose, messages, docstrings and comments use the idiom of PyTorch's and Jupyter's own pages."""
    place = ROOT / room
    files = [place] if place.is_file() else [*place.rglob("*.*")]
    readable = [file for file in files if file.suffix in {".py", ".md", ".toml", ".ipynb"} and file != Path(__file__)]
    assert readable
    assert {} == {str(file.relative_to(ROOT)): found for file in readable if (found := translated(words_of(file)))}


@pytest.mark.parametrize("text", ["It is built\nanew.", "The error speaks of a leaf.", "The program comes to correct."])
def test_a_translated_phrase_is_found(text):
    """The rule finds a phrase also where a line ends within it."""
    assert translated(text)
