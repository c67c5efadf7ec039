"""The commands about the course: `lab`, `errors`, `check`, `new`, `atlas` and `book`."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from autograder.errors import printable
from autograder.locale.languages import LANGUAGES, SOURCE, language_of_file, use_language
from autograder.locale.translations import known_language, translatable, translated
from autograder.requirements import loading


def add_book(subparsers: Any) -> None:
    """Add the command and its options to the parser."""
    book = subparsers.add_parser(
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


def add_atlas(subparsers: Any) -> None:
    """Add the command and its options to the parser."""
    atlas = subparsers.add_parser("atlas", help=translated("show which tensors a PyTorch operation saves for backward"))
    which = atlas.add_mutually_exclusive_group()
    which.add_argument(
        "operation", nargs="?", metavar="OP", help="operation, such as exp, torch.exp, Tensor.exp_, F.relu, @"
    )
    which.add_argument("--json", action="store_true", help="print the whole table as one JSON object")
    which.add_argument("--diff", nargs=2, metavar=("A", "B"), help="show the changes between two releases of PyTorch")
    atlas.set_defaults(run=_atlas)


def _atlas(chosen: argparse.Namespace) -> int:
    from autograder.tape.atlas.atlas_text import difference, of_operation, summary, table_text

    if chosen.json:
        print(table_text(), end="")
    elif chosen.diff:
        print(difference(*chosen.diff))
    else:
        print(summary() if chosen.operation is None else of_operation(chosen.operation))
    return 0


STATUSES = (translatable("correct"), translatable("incorrect"), translatable("not attempted"))
"""The results of an exercise, as `check` prints them."""

TOTAL = translatable("{points} of {most} points, for the notebook as it was saved")


def add_to(subparsers: Any) -> None:
    """Add the commands and their options to the parser."""
    lab = subparsers.add_parser("lab", help=translated("open the course in JupyterLab"))
    lab.add_argument("lesson", nargs="?", help=translated("a lesson's name, or its beginning, such as 02"))
    lab.add_argument("--port", type=int, help=translated("port to serve on (default: the first free port from 8888)"))
    lab.add_argument("--no-browser", action="store_true", help=translated("print the address; do not open a browser"))
    lab.add_argument("--teacher", action="store_true", help=translated("open the sources, with nbgrader's tools"))
    lab.add_argument("--language", default="en", help=translated("language of the course: en, or zh-CN for 简体中文"))
    lab.set_defaults(run=_lab)

    errors = subparsers.add_parser("errors", help=translated("show which lesson explains an error message of PyTorch"))
    errors.add_argument("message", nargs="+", help=translated("the message, or a part of it"))
    errors.set_defaults(run=_errors)

    check = subparsers.add_parser("check", help=translated("check a learner's notebook from the terminal"))
    check.add_argument("notebook", type=Path)
    check.set_defaults(run=_check)

    new = subparsers.add_parser("new", help=translated("create a small working nbgrader course to start from"))
    new.add_argument(
        "folder", type=Path, metavar="DIR", help=translated("folder to create; if it exists, it must be empty")
    )
    new.set_defaults(run=_new)


def _lab(chosen: argparse.Namespace) -> int:
    from autograder.course.lab import open_lab

    language = known_language(chosen.language)
    return open_lab(
        chosen.lesson, port=chosen.port, browser=not chosen.no_browser, teacher=chosen.teacher, language_code=language
    )


def _errors(chosen: argparse.Namespace) -> int:
    from autograder.course.learner.error_index import find_error

    find_error(" ".join(chosen.message))
    return 0


def _check(chosen: argparse.Namespace) -> int:
    from autograder.course.attempt import attempt

    with use_language(language_of_file(chosen.notebook)):
        verdicts = attempt(chosen.notebook, _show_cell)
        for verdict in verdicts:
            print(f"{verdict.points:g}/{verdict.max_points:g}  {verdict.exercise}: {translated(verdict.status)}")
            if verdict.status == "incorrect":
                print("\n".join(f"       {line}" for line in verdict.message.splitlines()))
        reached, most = sum(v.points for v in verdicts), sum(v.max_points for v in verdicts)
        print(translated(TOTAL, points=f"{reached:g}", most=f"{most:g}"))
    return 0 if all(verdict.status == "correct" for verdict in verdicts) else 1


def _show_cell(number: int, cells: int) -> None:
    """Show the number of the running cell in one line of the terminal, which each call overwrites."""
    if sys.stderr.isatty():
        end = "\r\033[K" if number == cells else ""
        message = translated("running cell {number} of {cells} in a new kernel", number=number, cells=cells)
        print(f"\rautograder: {message}{end}", end="", file=sys.stderr, flush=True)


def _new(chosen: argparse.Namespace) -> int:
    from autograder.course.new_course import ASSIGNMENT, make_course
    from autograder.grade.wire.limits import configuration_lines

    make_course(chosen.folder, configuration_lines())
    there = shlex.quote(printable(str(chosen.folder)))
    print(f"Created a course in {there}. Grade its submissions: autograder grade {ASSIGNMENT} --course {there}")
    return 0
