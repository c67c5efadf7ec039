"""The language of the lessons: one sentence per line, sentences for second-language readers, one idea per code cell.

A linter for prose was tried on all lessons (proselint 0.16): each of its 31 remarks was about a straight quote, a `...`
or the outcome `silently-wrong`, so it is not used. Short sentences help a reader who learned English later.
"""

import re

import pytest

from autograder.course.author_cells import AUTHOR_TAGS, PROGRAM
from autograder.course.canonical import read
from autograder.course.paths import SOLUTIONS, lessons
from tests.lessons.cells import SHOWN

SOURCES = [pytest.param(path, id=path.parent.name) for path in lessons(SOLUTIONS)]
LONGEST_SENTENCE = 30  # words
LONGEST_CELL = 12  # lines
SMALL = 3  # words: "Stuck?" and "Plan 45 minutes." may share a line with their neighbor
CODE = re.compile(r"```.*?```|`[^`]*`|\$[^$]*\$|\]\([^)]*\)", re.DOTALL)
LIST_MARK = re.compile(r"^(\d+\.|[-*]) ")
SENTENCE_END = re.compile(r"""[.!?]["'”)*_]* +(?=["'“(*_]*[A-Z])""")
UNFINISHED = re.compile(r"""[\w,`*)"'”]$""")


def prose(source: str) -> list[str]:
    """Return the lines of a markdown cell without headings and tables, each piece of code in it as one word."""
    text = CODE.sub("code", source)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("#", "|", "<"))]
    return [LIST_MARK.sub("", line) for line in lines]


def broken_lines(source: str) -> list[str]:
    """Return the lines that hold two sentences, and those in which a sentence goes on in the next line."""
    two = [line for line in prose(source) if len(sentences(line)) > 1]
    text = CODE.sub("code", source)
    followed = re.findall(r"^(?![#|<])(.*\S)\n(?=[a-z])", text, re.MULTILINE)
    return two + [line for line in followed if UNFINISHED.search(line)]


def sentences(line: str) -> list[str]:
    """Return the sentences of a line, the small ones left out."""
    return [sentence for sentence in SENTENCE_END.split(line) if len(sentence.split()) > SMALL]


def long_sentences(source: str) -> list[str]:
    """Return the lines with more words than a reader can easily remember; dashes and list marks are not words."""
    return [line for line in prose(source) if len(re.findall(r"\w[\w'’.-]*", line)) > LONGEST_SENTENCE]


def long_cells(cells) -> list[str]:
    """Return the ids of code cells with too many lines; imports, checks, programs and authors' cells may be longer."""
    free = {"stub", PROGRAM, *AUTHOR_TAGS}
    return [
        f"{cell.id}: {len(cell.source.splitlines())} lines"
        for cell in cells
        if cell.cell_type == "code"
        and not free & set(cell.metadata.get("tags", []))
        and not cell.metadata.get("nbgrader", {}).get("grade")
        and not cell.source.startswith(("import ", "from "))
        and not cell.source.startswith(f"@{SHOWN}")
        and len([line for line in cell.source.splitlines() if line.strip()]) > LONGEST_CELL
    ]


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in lessons(SOLUTIONS)])
def test_each_line_is_one_sentence(path):
    """A change of one sentence changes one line, and no other line appears in a diff."""
    broken = [line for cell in read(path).cells if cell.cell_type == "markdown" for line in broken_lines(cell.source)]
    assert [] == broken


@pytest.mark.parametrize("path", SOURCES)
def test_sentences_are_short(path):
    """Sentences are short enough for a second-language reader."""
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
    """The rule finds two sentences in a line, and ignores code, numbers and headings."""
    assert expected == broken_lines(source)
