"""A recorded lesson and a small book, each made once."""

from __future__ import annotations

import os

import pytest

from autograder.course.book.book_site import BookOptions, BookSite
from autograder.course.book.lesson_blocks import ProseBlock
from autograder.course.book.notebook_recorder import record_notebook
from autograder.locale.languages import LANGUAGES, use_language
from tests.course.book.small_course import LESSON, small_notebook


@pytest.fixture(scope="session")
def blocks(tmp_path_factory):
    """The blocks of the small lesson."""
    before = os.environ.get("NBGRADER_EXECUTION")
    try:
        return record_notebook(small_notebook(tmp_path_factory.mktemp("course")))
    finally:
        os.environ.pop("NBGRADER_EXECUTION") if before is None else os.environ.update(NBGRADER_EXECUTION=before)


@pytest.fixture(scope="session")
def book(blocks):
    """The files of a book of this one lesson and a glossary of one word."""
    return site_of(blocks, ("en",))


@pytest.fixture(scope="session")
def chinese_book(blocks):
    """The same book in Chinese, next to the English book; the lesson itself is not translated."""
    with use_language("zh-CN"):
        return site_of(blocks, ("en", "zh-CN"))


def site_of(blocks, languages):
    """Return the files of a book in the language that is spoken."""
    named = tuple((one, LANGUAGES[one]) for one in languages)
    site = BookSite(BookOptions(named, "2.13.0", "https://example.org/book/", "https://example.org/course.git"))
    glossary = [ProseBlock("words", "# Glossary"), ProseBlock("leaf", "## Leaf\n\nNo operation made it.")]
    site.write([(LESSON, blocks)], [("glossary", glossary)])
    return site.files
