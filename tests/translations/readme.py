"""The README in each language: its paragraphs from the PO file, its code and its links as they are, in the folder `docs`."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from autograder.course.paths import ROOT
from autograder.locale.notebook_translation import markdown_in_language

SOURCE_FILE = ROOT / "README.md"
LINK = re.compile(r'(?<=\]\()(?!\w+:|#)[^)#]+|(?<=src=")[^"]+|(?<=srcset=")[^"]+')
"""The target of a link, or of a picture, that is a file of the project."""


def readme_file(spoken: str) -> Path:
    """Return where the README of a language lies."""
    return ROOT / "docs" / f"README.{spoken}.md"


def readme_in(spoken: str) -> str:
    """Return the README in a language; links lead from `docs` to where they led."""
    text = markdown_in_language(SOURCE_FILE.read_text("utf-8"), spoken)
    return LINK.sub(lambda found: posixpath.relpath(found[0], "docs"), text)
