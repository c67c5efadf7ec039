"""The end of every command: its exit code, and one sentence if it failed."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from autograder.errors import AutograderError
from autograder.locale.translations import localized, translatable, translated
from autograder.requirements import require

Number = TypeVar("Number", int, float)


def positive(form: type[Number]) -> Callable[[str], Number]:
    """Return a parser of numbers above 0 for `type=`."""

    def read(words: str) -> Number:
        with contextlib.suppress(ValueError):
            if 0 < (number := form(words)) < float("inf"):
                return number
        raise argparse.ArgumentTypeError(f"{words!r} is not a positive number")

    return read


def count(words: str) -> int:
    """Return a whole number from 0 up."""
    with contextlib.suppress(ValueError):
        if (number := int(words)) >= 0:
            return number
    raise argparse.ArgumentTypeError(f"{words!r} is not a whole number from 0 up")


def add_course(verb: argparse.ArgumentParser, folder: str = "course folder") -> None:
    """Add the option `--course`; `folder` describes its value."""
    verb.add_argument("--course", type=Path, metavar="DIR", help=f"{folder} (default: class/ in a clone, else here)")


def course_of(chosen: argparse.Namespace) -> Path:
    """Return the course's folder that `--course` names, or the default."""
    from autograder.course.paths import CLASS  # reads the current folder

    return chosen.course or CLASS


WRONG_USE = 2
INTERRUPTED = {"grade": translatable(" Grades so far are kept; run the same command with --resume to continue.")}


def run_command(chosen: argparse.Namespace, verb: str) -> int:
    """Run a command and return its exit code; an error is printed in one sentence."""
    try:
        require(verb)
        code = chosen.run(chosen)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader closed the pipe (`| head`); this avoids a second BrokenPipeError at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return WRONG_USE
    except KeyboardInterrupt:
        message = translated("{command} was interrupted.", command=verb) + translated(INTERRUPTED.get(verb, ""))
        print(f"\nautograder: {message}", file=sys.stderr)
        return 128 + signal.SIGINT
    except AutograderError as error:
        print(error.words, end="", file=sys.stderr)
        print(f"autograder: {localized(str(error))}", file=sys.stderr)
        return WRONG_USE
