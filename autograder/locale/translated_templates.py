"""Jinja templates of pages, whose English texts are marked by `_( … )`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

from autograder.locale.translations import translated


def translated_templates(folder: Path, **options: Any) -> jinja2.Environment:
    """Return a folder's templates; values are escaped, and `_` translates a text into the current language.

    Args:
        folder: the folder of the templates.
        options: further options of Jinja's environment.
    """
    templates = jinja2.Environment(loader=jinja2.FileSystemLoader(folder), autoescape=True, trim_blocks=True, **options)
    templates.globals["_"] = translated
    return templates
