"""`autograder book`: record the released course on all cores, keep the blocks in a cache, and write the course as a static site.

The key is a hash of the notebook, its language, the package and PyTorch.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import multiprocessing
import os
import posixpath
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from html.parser import HTMLParser
from itertools import repeat
from pathlib import Path
from urllib.parse import unquote

import msgspec

from autograder.course.book.book_site import BOOK, BookOptions, BookSite, page_templates
from autograder.course.book.lesson_blocks import Block, QuestionBlock
from autograder.course.book.notebook_recorder import record_notebook
from autograder.course.book.own_programs import own_page, own_questions
from autograder.course.catalogue import lessons
from autograder.course.paths import HOME, NOTEBOOKS, replace_file, write_files
from autograder.errors import InputError, UnfinishedError, printable
from autograder.locale.languages import LANGUAGES, SOURCE, language, use_language
from autograder.locale.translations import known_language, po_files, translated
from autograder.requirements import PACKAGE
from autograder.view.assets import pictures, read_asset

MOST_WORKERS = 4  # the maximum number of processes that record at the same time, each with a few hundred MB

WARM = [__name__, "matplotlib_inline.backend_inline"]
"""Modules that take seconds to import, mainly PyTorch; they are imported once, in the process from which workers are forked."""


def blocks_of(notebooks: Sequence[Path], kept: Path | None) -> list[list[Block]]:
    """Return the blocks of each notebook, in the current language; `kept` is the folder of the cache, None for no cache.

    Raises:
        NotebookError, UnfinishedError: see `record_notebook`.
    """
    files = {path: kept / f"{_key(path)}.blocks" for path in notebooks} if kept else {}
    blocks = {path: file.read_bytes() for path, file in files.items() if file.is_file()}
    # The largest first, so that no core waits for a long one at the end.
    missing = sorted((path for path in notebooks if path not in blocks), key=lambda path: -path.stat().st_size)
    for path, encoded in zip(missing, _record_all(missing), strict=True):
        blocks[path] = encoded
        if kept is not None:
            replace_file(files[path], encoded)
    return [msgspec.msgpack.decode(blocks[path], type=list[Block]) for path in notebooks]


def _record_all(notebooks: list[Path]) -> Iterator[bytes]:
    """Yield each notebook's blocks as soon as they are recorded, so that an interrupted run keeps them."""
    if not notebooks:
        return
    workers = min(len(notebooks), os.cpu_count() or 1, MOST_WORKERS)
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(WARM)
    # A new process for each notebook, so that global settings do not affect the next one.
    with ProcessPoolExecutor(workers, forks, max_tasks_per_child=1) as pool:
        yield from pool.map(_recorded, notebooks, repeat(language()))


def _recorded(notebook: Path, language_code: str) -> bytes:
    with use_language(language_code):
        return msgspec.msgpack.encode(record_notebook(notebook))


def _key(notebook: Path) -> str:
    return hashlib.sha256(notebook.read_bytes() + _environment_digest(language())).hexdigest()[:24]


@cache
def _environment_digest(language_code: str) -> bytes:
    """Return a hash of the inputs of a recording other than the notebook."""
    whole = hashlib.sha256(f"{importlib.metadata.version('torch')} {language_code}".encode())
    for file in po_files(language_code):
        whole.update(file.read_bytes())
    for folder in ("tape", "check", "course", "view", "locale"):
        for file in sorted((PACKAGE / folder).rglob("*.*")):
            if file.suffix in (".json", ".py", ".toml"):
                whole.update(file.read_bytes())
    return whole.digest()


MARKER_FILE = "book.json"  # the file that marks a folder as a book
MARKER_CONTENT = b'{"made by": "autograder book"}'  # the contents of this file; other programs use a `book.json` too


def check_output_folder(folder: Path) -> None:
    """Check that a book can be written to a folder, before anything is recorded.

    Raises:
        InputError: the folder contains files that are not a book, or cannot be written.
    """
    shown = printable(str(folder))
    try:
        if folder.exists() and not folder.is_dir():
            raise InputError.of(
                "book.is_a_file|{shown} is a file, but a book is written to a folder. Name a folder with --out.",
                shown=shown,
            )
        if folder.exists() and any(folder.iterdir()) and not _is_book(folder):
            raise InputError.of(
                "book.other_files|{shown} contains files that are not part of a book, and is left unchanged. Name a "
                "new folder with --out.",
                shown=shown,
            )
        # raises OSError if the parent folder cannot be written
        above = next(parent for parent in _place(folder).parents if parent.exists())
        tempfile.TemporaryDirectory(dir=above).cleanup()
    except OSError as error:
        raise InputError.of(
            "book.not_writable|The book cannot be written to {shown}: {reason}. Name another folder with --out.",
            shown=shown,
            reason=error.strerror,
        ) from None


def _place(folder: Path) -> Path:
    """Return the folder with links and dots resolved. Raise OSError if a link is broken."""
    return Path(os.path.realpath(folder, strict=folder.is_symlink()))


def _is_book(folder: Path) -> bool:
    mark = folder / MARKER_FILE
    return mark.is_file() and mark.read_bytes() == MARKER_CONTENT


def write_book(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write the files, by path, to a new folder next to the old one, and then replace the old one.

    Raises:
        InputError: the folder contains files that are not a book.
        UnfinishedError: a file cannot be written.
    """
    check_output_folder(folder)
    place = _place(folder)
    fresh = place.with_name(f".{place.name}.writing")
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        contents = {path: text if isinstance(text, bytes) else text.encode() for path, text in files.items()}
        write_files(fresh, contents | {MARKER_FILE: MARKER_CONTENT})
        if place.exists():
            shutil.rmtree(place)
        fresh.replace(place)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise UnfinishedError.of(
            "book.not_written|The book cannot be written to {folder}: {reason}.",
            folder=printable(str(folder)),
            reason=error.strerror,
        ) from None


class _Links(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Store an element's address and anchor."""
        values = dict(attrs)
        self.anchors.add(values.get("id") or "")
        self.targets += [
            url for url in (values.get("href"), values.get("src")) if url and ":" not in url.partition("/")[0]
        ]


def broken_links(files: Mapping[str, str | bytes]) -> list[str]:
    """Return a line for each link of a page to a file or an anchor that is missing from the book's files."""
    pages = {path: _Links(str(text)) for path, text in files.items() if path.endswith(".html")}
    links = []
    for path, page in pages.items():
        for url in dict.fromkeys(page.targets):
            file, _, anchor = unquote(url).partition("#")
            goal = posixpath.normpath(posixpath.join(posixpath.dirname(path), file)) if file else path
            if goal not in files or (anchor and goal in pages and anchor not in pages[goal].anchors):
                links.append(f"{path}: {url}")
    return links


KEPT = HOME / "book"  # the folder with cached recordings, by content hash

ALL = "all"

ON_THE_WEB = re.compile(r"https?://([\w.-]+|\[[\da-f:.]+\])(:\d+)?(/[\w.~%@+/-]*)?", re.IGNORECASE)
"""A web address that a terminal prints as one word and to which page names can be appended; it contains no name or password."""


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

    `language` is one of `LANGUAGES`, or "all". The programs in `added` get a page next to the lessons. `address` is
    where the book will be published; without it, link previews do not have the full address of a picture. `repository`
    is the address from which to clone the project, for the page on JupyterLab. `kept` is the folder with cached
    recordings; None records everything and stores nothing.

    Raises:
        LanguageError: the course is not translated into that language.
        InputError: an address is not a web address, the folder contains other files, or an added program cannot be shown.
        UnfinishedError: a lesson cannot be recorded, a link is broken, or the folder cannot be written.
    """
    languages = list(LANGUAGES) if language == ALL else [known_language(language)]
    require_addresses(address, repository)
    check_output_folder(folder)
    added_questions = own_questions(added)
    files: dict[str, str | bytes] = {**shared_files()}
    named = tuple((name, LANGUAGES[name]) for name in languages)
    torch = importlib.metadata.version("torch").partition("+")[0]
    options = BookOptions(named, torch, f"{address.rstrip('/')}/" if address else "", repository)
    for name in languages:
        with use_language(name):
            files |= {f"{name}/{path}": text for path, text in _pages(options, kept, added_questions).items()}
    with use_language(languages[0]):
        files["index.html"] = page_templates().get_template("start.html").render(languages=named)
    if broken := broken_links(files):
        raise UnfinishedError.of(
            "book.broken_links|{count} links of the book are broken, the first one in {page}. Nothing was written.",
            count=len(broken),
            page=broken[0],
        )
    write_book(folder, files)
    return len(files)


def _pages(options: BookOptions, kept: Path | None, added_questions: list[QuestionBlock]) -> dict[str, str | bytes]:
    """Return the files in the current language."""
    course = list(lessons())
    notebooks = [NOTEBOOKS / lesson.name / f"{lesson.name}.ipynb" for lesson in course]
    others = sorted((NOTEBOOKS / "start").glob("*.ipynb"))
    blocks = blocks_of([*notebooks, *others], kept)
    pages = list(zip([path.stem for path in others], blocks[len(course) :], strict=True))
    if added_questions:
        pages.append(("programs", own_page(added_questions, translated("Programs"))))
    site = BookSite(options)
    site.write(list(zip(course, blocks, strict=False)), pages)
    return site.files


def shared_files() -> dict[str, str]:
    """Return the scripts and styles of every page, by path; the front-end module is a classic script, which works with `file://`."""
    module = pictures("var")
    files = {path.name: path.read_text("utf-8") for path in (BOOK / "front").iterdir()}
    shared = {"graph.js": module, "graph.css": read_asset("graph.css"), **files}
    return {f"assets/{name}": text for name, text in shared.items()}


def require_addresses(address: str, repository: str) -> None:
    """Check that each of the two is a web address or "".

    Raises:
        InputError: one of them is not; the message names its option.
    """
    for option, given in (("--address", address), ("--repository", repository)):
        if given and not ON_THE_WEB.fullmatch(given):
            raise InputError.of(
                "book.not_an_address|{given} is not a web address for {option}. Write one such as https://example.org/course.",
                given=repr(given),
                option=option,
            )
