"""Finds the front-end module and its style: in assets/ of a clone, or inside the installed package."""

from __future__ import annotations

from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent


@cache
def read_asset(name: str) -> str:
    """Returns the text of a file in assets/.

    Raises:
        FileNotFoundError: neither the clone nor the package has it, so the installation is incomplete.
    """
    for folder in (PACKAGE.parent / "assets", PACKAGE / "assets"):
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8")
    raise FileNotFoundError(f"{name} is missing: expected in {PACKAGE.parent / 'assets'}. Install autograder again.")
