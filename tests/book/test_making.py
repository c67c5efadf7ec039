"""The command: where a book may be written, what it is told, and that nothing is overwritten."""

from __future__ import annotations

import pytest

from autograder.book.make_book import make_book
from autograder.book.output_folder import MARK, BookFolderError, write_book
from autograder.errors import UnfinishedError
from autograder.locale.languages import LanguageError


def test_other_people_s_folders_stay_as_they_are(tmp_path):
    """A folder with other things in it is refused before anything is recorded, and nothing in it changes."""
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(BookFolderError, match="holds other things than a book"):
        make_book(tmp_path)
    assert ["thesis.txt"] == [file.name for file in tmp_path.iterdir()]
    with pytest.raises(BookFolderError, match="is a file"):
        make_book(tmp_path / "thesis.txt")


def test_a_language_that_is_not_there_is_named(tmp_path):
    """The sentence lists what there is, and no folder is made."""
    with pytest.raises(LanguageError, match="The course is not translated into 'xx'. It has en, zh-CN"):
        make_book(tmp_path / "new", "xx")
    assert not (tmp_path / "new").exists()


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
