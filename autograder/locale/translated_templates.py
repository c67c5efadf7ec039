"""Templates of pages, whose texts stand in `_( … )` in English."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

from autograder.locale.translations import translated


def translated_templates(folder: Path, **options: Any) -> jinja2.Environment:
    """Returns a folder's templates; what they are given is escaped, and `_` says a text in the language that is spoken then.

    Args:
        options: more of Jinja's own.
    """
    templates = jinja2.Environment(loader=jinja2.FileSystemLoader(folder), autoescape=True, trim_blocks=True, **options)
    templates.globals["_"] = translated
    return templates
