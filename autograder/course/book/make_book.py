"""`autograder book`: record the released course and write it as a static site."""

from __future__ import annotations

import importlib.metadata
import json
import os
import posixpath
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from autograder.course.book.book_site import BookOptions, BookSite
from autograder.course.book.pages.page_templates import BOOK, page_templates
from autograder.course.book.record.block_cache import blocks_of
from autograder.course.book.record.lesson_blocks import QuestionBlock
from autograder.course.book.record.own_programs import own_page, own_questions
from autograder.course.catalogue import lessons
from autograder.course.paths import HOME, NOTEBOOKS
from autograder.errors import InputError, UnfinishedError
from autograder.locale.languages import LANGUAGES, SOURCE, speaking
from autograder.locale.translations import in_english, known_language, translated
from autograder.printable import printable
from autograder.view.assets import pictures, read_asset

MARK = "book.json"
"""The file that marks a folder as a book."""

SIGNED = json.dumps({"made by": "autograder book"})
"""The contents of this file; other programs use a `book.json` too."""


class BookFolderError(InputError):
    """The book cannot be written here; the message gives the reason."""


def require_place(folder: Path) -> None:
    """Check that a book can be written to a folder, before anything is recorded.

    Raises:
        BookFolderError: the folder contains files that are not a book, or cannot be written.
    """
    shown = printable(str(folder))
    try:
        if folder.exists() and not folder.is_dir():
            raise BookFolderError(
                in_english(
                    "{shown} is a file, but a book is written to a folder. Name a folder with --out.", shown=shown
                )
            )
        if folder.exists() and any(folder.iterdir()) and not _is_book(folder):
            raise BookFolderError(
                in_english(
                    "{shown} contains files that are not part of a book, and is left unchanged. Name a new folder with --out.",
                    shown=shown,
                )
            )
        _try_to_write(_place(folder))
    except OSError as error:
        raise BookFolderError(
            in_english(
                "The book cannot be written to {shown}: {reason}. Name another folder with --out.",
                shown=shown,
                reason=error.strerror,
            )
        ) from None


def _place(folder: Path) -> Path:
    """Return the folder with links and dots resolved; raise OSError if a link is broken."""
    return Path(os.path.realpath(folder, strict=folder.is_symlink()))


def _is_book(folder: Path) -> bool:
    mark = folder / MARK
    return mark.is_file() and mark.read_bytes() == SIGNED.encode()


def _try_to_write(place: Path) -> None:
    """Raise OSError if the parent folder cannot be written."""
    above = next(one for one in place.parents if one.exists())
    tempfile.TemporaryDirectory(dir=above).cleanup()


def write_book(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write the files to a new folder next to the old one, and then replace the old one.

    Args:
        folder: the folder of the book.
        files: content by path inside the folder.

    Raises:
        BookFolderError: the folder contains files that are not a book.
        UnfinishedError: a file cannot be written.
    """
    require_place(folder)
    place = _place(folder)
    fresh = place.with_name(f".{place.name}.writing")
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        for path, content in {**files, MARK: SIGNED}.items():
            (fresh / path).parent.mkdir(parents=True, exist_ok=True)
            (fresh / path).write_bytes(content if isinstance(content, bytes) else content.encode())
        if place.exists():
            shutil.rmtree(place)
        fresh.replace(place)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise UnfinishedError(
            in_english(
                "The book cannot be written to {folder}: {reason}.",
                folder=printable(str(folder)),
                reason=error.strerror,
            )
        ) from None


class _Links(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Store an element's address and anchor."""
        known = dict(attrs)
        self.anchors.add(known.get("id") or "")
        self.targets += [
            url for url in (known.get("href"), known.get("src")) if url and ":" not in url.partition("/")[0]
        ]


def broken_links(files: Mapping[str, str | bytes]) -> list[str]:
    """Return a line for each link to a file or an anchor that is missing from the book.

    Args:
        files: the content of every file by its path in the book; only pages are searched.
    """
    pages = {path: _read(str(text)) for path, text in files.items() if path.endswith(".html")}
    found = []
    for path, page in pages.items():
        for url in dict.fromkeys(page.targets):
            file, _, anchor = unquote(url).partition("#")
            goal = posixpath.normpath(posixpath.join(posixpath.dirname(path), file)) if file else path
            if goal not in files or (anchor and goal in pages and anchor not in pages[goal].anchors):
                found.append(f"{path}: {url}")
    return found


def _read(text: str) -> _Links:
    links = _Links()
    links.feed(text)
    return links


KEPT = HOME / "book"
"""The folder with cached recordings, by content hash."""

ALL = "all"

ON_THE_WEB = re.compile(r"https?://([\w.-]+|\[[\da-f:.]+\])(:\d+)?(/[\w.~%@+/-]*)?", re.IGNORECASE)
"""A web address that a terminal prints as one word and to which page names can be appended; it contains no name or password."""


class BookAddressError(InputError):
    """The given address is not one that the book's readers can follow."""


def make_book(
    folder: Path,
    language: str = SOURCE,
    *,
    added: Sequence[Path] = (),
    address: str = "",
    repository: str = "",
    kept: Path | None = KEPT,
) -> int:
    """Write the book to a folder and return the number of its files.

    Args:
        folder: the folder of the book.
        language: one of `LANGUAGES`, or "all".
        added: programs of the teacher, which get a page next to the lessons.
        address: the address where it will be published; "" leaves link previews without a picture's full address.
        repository: the address from which to clone the project, for the page on JupyterLab.
        kept: the folder with cached recordings; None records everything and stores nothing.

    Raises:
        LanguageError: the course is not translated into that language.
        BookAddressError: `address` or `repository` is not a web address.
        BookFolderError: the folder contains other files.
        OwnProgramError: a program that was added cannot be shown.
        UnfinishedError: a lesson cannot be recorded, a link is broken, or the folder cannot be written.
    """
    languages = list(LANGUAGES) if language == ALL else [known_language(language)]
    require_addresses(address, repository)
    require_place(folder)
    own = own_questions(added)
    files: dict[str, str | bytes] = {**shared_files()}
    named = tuple((one, LANGUAGES[one]) for one in languages)
    torch = importlib.metadata.version("torch").partition("+")[0]
    options = BookOptions(named, torch, _with_slash(address), repository)
    for one in languages:
        with speaking(one):
            files |= {f"{one}/{path}": text for path, text in _pages(options, kept, own).items()}
    with speaking(languages[0]):
        files["index.html"] = page_templates().get_template("start.html").render(languages=named)
    if broken := broken_links(files):
        raise UnfinishedError(
            in_english(
                "{count} links of the book are broken, the first one in {page}. Nothing was written.",
                count=len(broken),
                page=broken[0],
            )
        )
    write_book(folder, files)
    return len(files)


def _pages(options: BookOptions, kept: Path | None, own: list[QuestionBlock]) -> dict[str, str | bytes]:
    """Return the files in the current language."""
    course = list(lessons())
    notebooks = [NOTEBOOKS / lesson.name / f"{lesson.name}.ipynb" for lesson in course]
    others = sorted((NOTEBOOKS / "start").glob("*.ipynb"))
    blocks = blocks_of([*notebooks, *others], kept)
    pages = list(zip([path.stem for path in others], blocks[len(course) :], strict=True))
    if own:
        pages.append(("programs", own_page(own, translated("Programs"))))
    site = BookSite(options)
    site.write(list(zip(course, blocks, strict=False)), pages)
    return site.files


def shared_files() -> dict[str, str]:
    """Return the scripts and styles of every page, by path; the front-end module is a classic script, which works with `file://`."""
    module = pictures("var")
    own = {path.name: path.read_text("utf-8") for path in (BOOK / "front").iterdir()}
    shared = {"graph.js": module, "graph.css": read_asset("graph.css"), **own}
    return {f"assets/{name}": text for name, text in shared.items()}


def require_addresses(address: str, repository: str) -> None:
    """Check that each of the two is a web address or "".

    Raises:
        BookAddressError: one of them is not; the message names its option.
    """
    for option, given in (("--address", address), ("--repository", repository)):
        if given and not ON_THE_WEB.fullmatch(given):
            raise BookAddressError(
                in_english(
                    "{given} is not a web address for {option}. Write one such as https://example.org/course.",
                    given=repr(given),
                    option=option,
                )
            )


def _with_slash(address: str) -> str:
    return f"{address.rstrip('/')}/" if address else ""
