"""The reader's language, which is set by `lab --language` or by the metadata of the open notebook."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

SOURCE = "en"
LANGUAGES = {SOURCE: "English", "zh-CN": "简体中文"}
VARIABLE = "AUTOGRADER_LANGUAGE"
METADATA = "autograder_language"
"""The key in a notebook's metadata, from which a submission's feedback takes its language."""

LOOKS, PAUSE = 20, 0.05
"""The number of attempts to read a notebook that is incomplete, and the seconds between them."""

_language: ContextVar[str | None] = ContextVar("language", default=None)


def language() -> str:
    """Return the language of this process's texts; English by default."""
    return _language.get() or _chosen()


@contextlib.contextmanager
def bound(variable: ContextVar[Any], value: T) -> Iterator[T]:
    """Set a context variable inside the block; the block gets the value."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


def use_language(name: str) -> AbstractContextManager[object]:
    """Use this language, which is one of `LANGUAGES`, inside the block."""
    return bound(_language, name)


def language_of(metadata: object) -> str:
    """Return the language in a notebook's metadata; English if it is missing or unknown."""
    name = metadata.get(METADATA) if isinstance(metadata, dict) else None
    return name if isinstance(name, str) and name in LANGUAGES else SOURCE


def language_named(name: str) -> str | None:
    """Return the language's name in `LANGUAGES`, ignoring case and the kind of hyphen; None if it is unknown."""
    wanted = name.replace("_", "-").casefold()
    return next((language for language in LANGUAGES if language.casefold() == wanted), None)


@functools.cache
def _chosen() -> str:
    if wanted := language_named(os.environ.get(VARIABLE, "")):
        return wanted
    # Jupyter Server (2.x) puts the notebook's name into the kernel's environment; in editors that do not, texts are in English.
    return language_of_file(Path(os.environ.get("JPY_SESSION_NAME", "")))


def language_of_file(notebook: Path) -> str:
    """Return the language of a notebook; English if it is missing or the file cannot be read."""
    if notebook.suffix != ".ipynb":
        return SOURCE
    stored = _stored(notebook)
    return language_of(stored.get("metadata") if isinstance(stored, dict) else None)


def _stored(notebook: Path) -> object:
    """Return the JSON value in a notebook's file; None if it cannot be read.

    Jupyter Server (2.x) saves in place, so the file may be incomplete while it is being saved; reading is repeated in
    that case.
    """
    for _ in range(LOOKS):
        try:
            return json.loads(notebook.read_text("utf-8"))
        except OSError:
            return None
        except ValueError:
            time.sleep(PAUSE)
    return None
