"""The templates of the book's pages, in the reader's language.

The texts in `autograder/course/book/templates` are marked by `_(` and `)`, so that `python -m tests.translations` finds them.
"""

from __future__ import annotations

from pathlib import Path

import jinja2

from autograder.locale.languages import SOURCE, language
from autograder.locale.translated_templates import translated_templates
from autograder.view.text.headline import meaning

BOOK = Path(__file__).resolve().parent


def page_templates() -> jinja2.Environment:
    """Return the templates for the current language; values are escaped."""
    templates = translated_templates(BOOK / "templates", undefined=jinja2.StrictUndefined, lstrip_blocks=True)
    templates.globals |= {"language": language(), "meaning": meaning, "lab_command": lab_command}
    return templates


def lab_command(lesson: str) -> str:
    """Return the command that opens a lesson in JupyterLab in the current language."""
    chosen = "" if language() == SOURCE else f" --language {language()}"
    return f"python3 -m autograder lab {lesson}{chosen}"
