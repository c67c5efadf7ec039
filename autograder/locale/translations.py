"""Translation of texts by the PO files next to this module; a text without a translation remains in English."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.errors import InputError
from autograder.locale.languages import LANGUAGES, SOURCE, language, language_named
from autograder.locale.line_breaks import BLANK
from autograder.locale.messages import Message

if TYPE_CHECKING:
    import jinja2
    from babel.messages import Catalog
    from babel.messages.catalog import Message as CatalogMessage

    from autograder.locale.stored_messages import StoredMessage  # needs msgspec, unlike the first command in a clone

FOLDER = Path(__file__).parent


class LanguageError(InputError):
    """The course does not have this language."""


def translated(text: str, /, **values: object) -> str:
    """Return the text in the reader's language, with the values in place of their names in braces.

    A text without a translation, or with one of an older version, remains in English. Without values, braces are
    literal. Spaces next to full-width punctuation are removed, so a translation need not depend on how its values begin
    and end.
    """
    translation = texts_in(language()).get(text)
    if translation is None:
        return text.format(**values) if values else text
    return BLANK.sub("", translation.format(**values)) if values else translation


def translatable(text: str) -> str:
    """Return the text unchanged, and mark it for translators; it is translated where it is shown."""
    return text


def localized(text: str, stored: Iterable[StoredMessage] = ()) -> str:
    """Return a message in the reader's language; any other text, such as a user's, is returned unchanged.

    Args:
        text: the text.
        stored: the messages of the recording or grade that contains the text, if it was read back.
    """
    text = restored(text, stored)
    if not isinstance(text, Message):
        return text
    translation = messages_in(language()).get(text.id) if text.id else texts_in(language()).get(text)
    if translation is None:
        return text.text
    try:
        values = {name: localized(value) if isinstance(value, str) else value for name, value in text.values.items()}
        return BLANK.sub("", translation.format(**values)) if values else translation
    except (LookupError, ValueError, RecursionError):  # other values than the translation needs, or forged ones
        return text.text


def restored(text: str, stored: Iterable[StoredMessage]) -> str:
    """Return the message with this English text that was stored with a recording or grade, else the text."""
    message = None if isinstance(text, Message) else next((known for known in stored if known.text == text), None)
    try:
        return text if message is None else message.message()
    except RecursionError:  # a forged message
        return text


def known_language(name: str) -> str:
    """Return the language's name in `LANGUAGES`. Raise LanguageError if the course is not translated into it."""
    known = language_named(name)
    if known is None:
        raise LanguageError.of(
            "language.unknown|The course is not translated into {wanted}. It has {known}; docs/translating.md "
            "describes how to add one.",
            wanted=repr(name),
            known=", ".join(LANGUAGES),
        )
    return known


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
def texts_in(language_code: str) -> dict[str, str]:
    """Return all translations of a language, by the English text; empty for English."""
    return {str(message.id): str(message.string) for message in _translations(language_code) if not message.fuzzy}


@functools.cache
def messages_in(language_code: str) -> dict[str, str]:
    """Return the translations of messages by their ids, also those whose English text was changed since."""
    return {message.context: str(message.string) for message in _translations(language_code) if message.context}


@functools.cache
def _translations(language_code: str) -> list[CatalogMessage]:
    return [message for file in po_files(language_code) for message in read_po(file) if message.id and message.string]


def po_files(language_code: str) -> list[Path]:
    """Return the translation files of a language, for each lesson and for the package; an empty list if Babel is missing."""
    if importlib.util.find_spec("babel") is None:
        return []
    return sorted((FOLDER / language_code.replace("-", "_")).glob("*.po"))


def read_po(file: Path) -> Catalog:
    """Return a PO file's messages."""
    # imported here because English does not need it; it is installed with JupyterLab
    from babel.messages.pofile import read_po as parse

    with file.open("rb") as stream:
        return parse(stream)


def translated_templates(folder: Path, **options: Any) -> jinja2.Environment:
    """Return a folder's Jinja templates; values are escaped, and `_( … )` translates a text into the current language.

    Args:
        folder: the folder of the templates.
        options: further options of Jinja's environment.
    """
    import jinja2  # here because most texts are not in templates

    templates = jinja2.Environment(loader=jinja2.FileSystemLoader(folder), autoescape=True, trim_blocks=True, **options)
    templates.globals["_"] = translated
    return templates
