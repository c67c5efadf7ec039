"""Finds the front-end module and style: in the repository's assets/ in a clone, beside the package when installed."""

from __future__ import annotations

from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent


@cache
def asset(name: str) -> str:
    """Returns the text of a file of assets/.

    Raises:
        FileNotFoundError: it is in neither place; the installation is incomplete.
    """
    for folder in (PACKAGE.parent / "assets", PACKAGE / "assets"):
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8")
    raise FileNotFoundError(f"{name} is missing: expected in {PACKAGE.parent / 'assets'}. Install autograder again.")
