"""The help of a command in the reader's language: argparse's own words, and lines that break in any language."""

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
"""What argparse writes into each help itself (Python 3.11)."""


class _HelpFormatter(argparse.HelpFormatter):
    """Breaks lines of any language; argparse's own knows blanks only."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap_text(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(wrap_text(text, width, indent, indent))


class TranslatedHelpParser(argparse.ArgumentParser):
    """A parser whose help is in the reader's language; argparse's own sentences stay English."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_HelpFormatter, **options)

    def format_help(self) -> str:
        """Returns the help."""
        told = super().format_help()
        for words in ARGPARSE_SAYS:
            told = told.replace(words, translated(words))
        return told
