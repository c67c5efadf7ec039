"""The help of a command in the reader's language, including argparse's own headings, with line breaks for any language."""

from __future__ import annotations

import argparse
from typing import Any

from autograder.locale.line_breaks import wrap_text
from autograder.locale.translations import translatable, translated

ARGPARSE_SAYS = (
    translatable("usage:"),
    translatable("positional arguments:"),
    translatable("options:"),
    translatable("show this help message and exit"),
)
"""The texts that argparse adds to each help (Python 3.11)."""


class _HelpFormatter(argparse.HelpFormatter):
    """Breaks lines in any language; argparse's formatter breaks only at spaces."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap_text(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(wrap_text(text, width, indent, indent))


class TranslatedHelpParser(argparse.ArgumentParser):
    """A parser whose help is in the reader's language; argparse's error messages remain in English."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_HelpFormatter, **options)

    def format_help(self) -> str:
        """Return the help."""
        told = super().format_help()
        for words in ARGPARSE_SAYS:
            told = told.replace(words, translated(words))
        return told
