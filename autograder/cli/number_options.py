"""Parsers for numeric options of the command line."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from typing import TypeVar

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
