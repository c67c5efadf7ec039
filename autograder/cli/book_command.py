"""The command `book` and its options."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from autograder.loading import loading
from autograder.locale.languages import LANGUAGES, SOURCE
from autograder.locale.translations import translated


def add_to(verbs: Any) -> None:
    """Add the command and its options to the parser."""
    book = verbs.add_parser(
        "book", help=translated("write the lessons as a static site that needs no kernel and no network")
    )
    book.add_argument(
        "--out",
        type=Path,
        default=Path("site"),
        metavar="DIR",
        help=translated("folder to create, or an older book to update (default: site)"),
    )
    book.add_argument(
        "--language",
        default=SOURCE,
        help=translated(
            "language of the book: one of {known}, or all (default: {default})",
            known=translated(", ").join(LANGUAGES),
            default=SOURCE,
        ),
    )
    book.add_argument(
        "--add",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help=translated("program or recording (.json) to add to the book"),
    )
    book.add_argument(
        "--address", default="", metavar="URL", help=translated("address of the published book, for link previews")
    )
    book.add_argument(
        "--repository", default="", metavar="URL", help=translated("address from which readers can clone the project")
    )
    book.add_argument("--afresh", action="store_true", help=translated("do not use or write cached recordings"))
    book.set_defaults(run=_book)


def _book(chosen: argparse.Namespace) -> int:
    began = time.monotonic()
    with loading():
        from autograder.course.book.make_book import KEPT, make_book

    count = make_book(
        chosen.out,
        chosen.language,
        added=chosen.add,
        address=chosen.address,
        repository=chosen.repository,
        kept=None if chosen.afresh else KEPT,
    )
    print(f"{chosen.out / 'index.html'}: the book, {count} files, made in {time.monotonic() - began:.0f} s")
    return 0
