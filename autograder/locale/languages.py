"""Which language the learner reads: chosen by `lab --language`, or written into the notebook that is open."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

SOURCE = "en"
LANGUAGES = {SOURCE: "English", "zh-CN": "简体中文"}
VARIABLE = "AUTOGRADER_LANGUAGE"
METADATA = "autograder_language"
"""The key in a notebook's metadata, so that a hand-in says in which language its feedback is to be."""

LOOKS, PAUSE = 20, 0.05
"""How often a notebook that is cut off is looked at, and the seconds in between."""

_spoken: ContextVar[str | None] = ContextVar("spoken", default=None)


def language() -> str:
    """Returns the language in which this process speaks to its reader; English where none is chosen."""
    return _spoken.get() or _chosen()


@contextlib.contextmanager
def speaking(name: str) -> Iterator[None]:
    """Makes everything within speak this language, which is one of `LANGUAGES`."""
    token = _spoken.set(name)
    try:
        yield
    finally:
        _spoken.reset(token)


def language_of(metadata: object) -> str:
    """Returns the language that a notebook's metadata names; English where it names none that is known."""
    found = metadata.get(METADATA) if isinstance(metadata, dict) else None
    return found if isinstance(found, str) and found in LANGUAGES else SOURCE


@functools.cache
def _chosen() -> str:
    wanted = os.environ.get(VARIABLE, "")
    if wanted in LANGUAGES:
        return wanted
    # Jupyter Server (2.x) names the notebook in the environment of its kernel; in an editor without it, English is spoken.
    return language_of_file(Path(os.environ.get("JPY_SESSION_NAME", "")))


def language_of_file(notebook: Path) -> str:
    """Returns the language that a notebook names; English where it names none, or cannot be read."""
    if notebook.suffix != ".ipynb":
        return SOURCE
    stored = _stored(notebook)
    return language_of(stored.get("metadata") if isinstance(stored, dict) else None)


def _stored(notebook: Path) -> object:
    """Return the JSON value in a notebook's file; None if it cannot be read.

    Jupyter Server (2.x) saves into the file itself, so a kernel that looks while it does finds it cut off: it looks again.
    """
    for _ in range(LOOKS):
        try:
            return json.loads(notebook.read_text("utf-8"))
        except OSError:
            return None
        except ValueError:
            time.sleep(PAUSE)
    return None
