"""Translation of texts by the PO files next to this module; a text without a translation remains in English."""

from __future__ import annotations

import functools
import importlib.util
import re
import string
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from autograder.errors import InputError
from autograder.locale.languages import LANGUAGES, SOURCE, language
from autograder.locale.line_breaks import BLANK

if TYPE_CHECKING:
    from babel.messages import Catalog

FOLDER = Path(__file__).parent

SENTENCES = "sentences.po"
"""The file with the texts of `in_english`."""

SEAMS = (re.compile(r"(?<=\.)( )"), re.compile("(; )"))
"""The separators of two sentences, and of two parts of a sentence."""

BLANKS = re.compile(r"\{\w*\}")


class Completeness(NamedTuple):
    """The number of a language's texts and of those translated; fuzzy ones were translated from an older text."""

    texts: int
    translated: int
    fuzzy: int


class LanguageError(InputError):
    """The course does not have this language."""


def translated(text: str, /, **values: object) -> str:
    """Return the text in the reader's language, with the values in place of their names in braces.

    A text without a translation, or with one of an older version, remains in English. Without values, braces are
    literal. Spaces next to full-width punctuation are removed, so a translation need not depend on how its values begin
    and end.
    """
    found = texts_in(language()).get(text)
    if found is None:
        return text.format(**values) if values else text
    return BLANK.sub("", found.format(**values)) if values else found


def translatable(text: str) -> str:
    """Return the text unchanged, and mark it for translators; it is translated where it is shown."""
    return text


def in_english(text: str, /, **values: object) -> str:
    """Return the text with these values in English, if it is stored or sent to another process before it is shown.

    `retold` translates it into the reader's language. Values may be such texts themselves.
    """
    return text.format(**values) if values else text


def counted_in_english(count: int, one: str, many: str, **values: object) -> str:
    """Return one of two texts of `in_english`, depending on a number, such as "{count} node" and "{count} nodes"."""
    return in_english(one if count == 1 else many, count=f"{count:,}", **values)


def retold(english: str) -> str:
    """Return a text of `in_english` in the reader's language; other texts are returned unchanged."""
    spoken = language()
    if spoken == SOURCE or not english:
        return english
    if " " in english and english in texts_in(spoken):  # for example, the name of a kind of change
        return texts_in(spoken)[english]
    if found := _retold(english, spoken) or _retold(english.removesuffix("."), spoken, "{sentence}."):
        return found
    for seam in SEAMS:
        parts = seam.split(english)
        if len(parts) > 1:
            told = [retold(part) for part in parts[::2]]
            return english if told == parts[::2] else BLANK.sub("", _interleaved(told, parts[1::2]))
    return english


def _interleaved(parts: list[str], seams: list[str]) -> str:
    return "".join(f"{part}{translated(seam)}" for part, seam in zip(parts, [*seams, ""], strict=True))


def _retold(english: str, spoken: str, end: str = "{sentence}") -> str | None:
    """Return the translation of a single text of `in_english`, inserted into `end`; None for other texts."""
    for pattern, text in _sentences_in(spoken):
        if found := pattern.fullmatch(english):
            values = {name: retold(value) for name, value in found.groupdict().items()}
            return translated(end, sentence=BLANK.sub("", text.format(**values)) if values else text)
    return None


def known_language(name: str) -> str:
    """Return the language's name in `LANGUAGES`, ignoring case and the kind of hyphen.

    Raises:
        LanguageError: the course is not translated into it.
    """
    wanted = name.replace("_", "-").casefold()
    found = [language for language in LANGUAGES if language.casefold() == wanted]
    if not found:
        raise LanguageError(
            in_english(
                "The course is not translated into {wanted}. It has {known}; docs/translating.md describes how to add one.",
                wanted=repr(name),
                known=", ".join(LANGUAGES),
            )
        )
    return found[0]


def join_names(things: list[str]) -> str:
    """Return "a", "a and b", or "a, b and c"."""
    if len(things) < 2:
        return "".join(things)
    return translated("{things} and {last}", things=translated(", ").join(things[:-1]), last=things[-1])


def join_sentences(parts: Iterable[str]) -> str:
    """Return the non-empty sentences as one text, without a space after a full-width stop."""
    text = " ".join(filter(None, parts))
    return text if language() == SOURCE else BLANK.sub("", text)


@functools.cache
def texts_in(spoken: str) -> dict[str, str]:
    """Return all translations of a language, by the English text; empty for English."""
    found: dict[str, str] = {}
    for file in po_files(spoken):
        found |= {
            str(message.id): str(message.string)
            for message in read_po(file)
            if message.id and message.string and not message.fuzzy
        }
    return found


@functools.cache
def _sentences_in(spoken: str) -> list[tuple[re.Pattern[str], str]]:
    """Return a pattern for each text of `SENTENCES` with its translation, the longest fixed text first."""
    stored = chain.from_iterable(read_po(file) for file in po_files(spoken) if file.name == SENTENCES)
    known = [(str(one.id), str(one.string)) for one in stored if one.id and one.string and not one.fuzzy]
    known.sort(key=lambda pair: -len(BLANKS.sub("", pair[0])))
    return [(_pattern(text), translation) for text, translation in known]


def _pattern(text: str) -> re.Pattern[str]:
    """Return a pattern that matches a text with any values; a name that occurs twice has the same value."""
    parts, seen = [], set[str]()
    for literal, name, _, _ in string.Formatter().parse(text):
        parts.append(re.escape(literal))
        if name:
            parts.append(f"(?P={name})" if name in seen else f"(?P<{name}>.*?)")
            seen.add(name)
    return re.compile("".join(parts), re.DOTALL)


def completeness(spoken: str) -> Completeness:
    """Count a language's texts over all its files."""
    messages = [message for file in po_files(spoken) for message in read_po(file) if message.id]
    fuzzy = sum(message.fuzzy for message in messages)
    done = sum(bool(message.string) and not message.fuzzy for message in messages)
    return Completeness(len(messages), done, fuzzy)


def po_files(spoken: str) -> list[Path]:
    """Return the translation files of a language, for each lesson and for the package; an empty list if Babel is missing."""
    if importlib.util.find_spec("babel") is None:
        return []
    return sorted((FOLDER / spoken.replace("-", "_")).glob("*.po"))


def read_po(file: Path) -> Catalog:
    """Return a PO file's messages."""
    # imported here because English does not need it; it is installed with JupyterLab
    from babel.messages.pofile import read_po as parse

    with file.open("rb") as stream:
        return parse(stream)
