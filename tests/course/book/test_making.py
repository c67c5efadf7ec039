"""The command: the folders into which a book may be written, its arguments, and that existing files are not overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.course.book.make_book import (
    MARK,
    BookAddressError,
    BookFolderError,
    make_book,
    require_addresses,
    write_book,
)
from autograder.errors import UnfinishedError
from autograder.locale.translations import LanguageError


def test_other_people_s_folders_stay_as_they_are(tmp_path):
    """A folder with other files is refused before anything is recorded, and is not changed."""
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(BookFolderError, match="contains files that are not part of a book"):
        make_book(tmp_path)
    assert ["thesis.txt"] == [file.name for file in tmp_path.iterdir()]
    with pytest.raises(BookFolderError, match="is a file"):
        make_book(tmp_path / "thesis.txt")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("loop", "The book cannot be written to .*loop: Too many levels of symbolic links"),
        ("thesis.txt/site", "The book cannot be written to .*site: Not a directory"),
        ("gitbook", "contains files that are not part of a book"),
    ],
)
def test_a_place_that_cannot_be_used_is_named_at_once(tmp_path, given, said):
    """A link to itself, a folder in a file, and another program's `book.json`: one sentence, and everything is as it was."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "thesis.txt").write_text("mine")
    (tmp_path / "gitbook").mkdir()
    (tmp_path / "gitbook" / MARK).write_text('{"title": "mine"}')
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BookFolderError, match=said):
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
    with pytest.raises(BookAddressError, match=f"is not a web address for --{option}. Write one such as https://"):
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
    assert {"en/index.html", MARK} == {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    with pytest.raises(UnfinishedError, match="cannot be written"):
        write_book(folder, {"en/index.html": "newer", "en/index.html/inside": "no"})
    assert "new" == (folder / "en" / "index.html").read_text()
    assert ["book"] == [file.name for file in tmp_path.iterdir()]
