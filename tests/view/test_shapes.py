"""The small parts of a picture: measured text, highlight source, markup, and words for lists."""

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder.locale.line_breaks import columns, join_lines, wrap_text
from autograder.locale.translations import join_names
from autograder.view import shapes
from autograder.view.draw.markup import write_svg
from autograder.view.scene.board import highlight
from autograder.view.text.naming import count_noun, join_few


@pytest.mark.parametrize(("words", "cells"), [("loss", 4), ("", 0), ("損失", 4), ("e\u0301", 1)])
def test_text_is_measured_in_cells(words, cells):
    """East Asian characters take two cells, combining marks take none."""
    assert cells == columns(words)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=60), st.integers(1, 20))
def test_clipped_text_fits_and_says_that_it_was_cut(words, limit):
    """It is never wider than the limit; in a text that fits, only unnecessary spaces are removed."""
    clipped = shapes.clip(words, limit)

    assert columns(clipped) <= limit
    assert clipped == " ".join(words.split()) or clipped.endswith("…")


@given(st.lists(st.text("abcdefgh", min_size=1, max_size=8), max_size=12), st.integers(8, 20))
def test_wrapped_text_loses_no_word(words, limit):
    """Each line fits, and the lines together are the words."""
    lines = wrap_text(" ".join(words), limit)

    assert all(columns(line) <= limit for line in lines)
    assert words == " ".join(lines).split()


@pytest.mark.parametrize(
    "source", ["for i in x:  # all\n    y = 'a' + 1\n", 'text = """a\nb"""\n', "not python (\n", ""]
)
def test_colours_change_no_character(source):
    """The joined runs of each line equal the line, even if the source is not Python."""
    assert source.rstrip("\n").split("\n") == ["".join(text for text, _ in line) for line in highlight(source)]


def test_colours_are_pythons_own_tokens():
    """A keyword, a number, a string and a comment have their kinds; names and operators do not."""
    (line,) = highlight("if x: y = 'a' + 1  # why")
    assert {"if": "keyword", "'a'": "string", "1": "number", "# why": "comment"} == {
        text: kind for text, kind in line if kind
    }


@given(st.text(st.characters(max_codepoint=0xD7FF, exclude_categories=["Cc"]), max_size=30))
def test_markup_is_well_formed_whatever_the_words(words):
    """An XML parser reads back the text, and no element that a program's names could have brought."""
    tree = ElementTree.fromstring(write_svg(shapes.group(shapes.text(1.0, 2.25, words), kind="pen")))

    assert ["text"] == [child.tag for child in tree]
    assert ("pen", "1", "2.2") == (tree.get("class"), tree[0].get("x"), tree[0].get("y"))
    assert words == (tree[0].text or "")


def test_lists_read_as_sentences():
    """Up to three things by name, more as a count."""
    assert ["", "a", "a and b", "a, b and c"] == [join_names(list("abc")[:count]) for count in range(4)]
    assert "a, b, c and 2 more" == join_few(list("abcde"))
    assert ("1 step", "2 steps") == (
        count_noun(1, "{count} step", "{count} steps"),
        count_noun(2, "{count} step", "{count} steps"),
    )


def test_chinese_is_wrapped_between_letters():
    """Lines respect the width, do not begin with a full stop, keep names whole, and give the text when joined."""
    text = "`h += y` 覆盖了 h，而 AddmmBackward0（第 13 行）为反向传播保留着它。"
    for width in range(20, 40):
        lines = wrap_text(text, width, "- ", "  ")
        assert all(columns(line) <= width and line[2:3] not in "，。）" for line in lines)
        assert text == join_lines([lines[0][2:], *lines[1:]])
    assert text.replace(" ", "") == "".join(wrap_text(text, 10)).replace(" ", "")
