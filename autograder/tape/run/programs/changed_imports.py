"""Project files that are imported with another text than the one that lies on disk."""

from __future__ import annotations

import linecache
import os
import types
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader

from autograder.tape.internals.entry_points import replaced
from autograder.tape.run.programs.source_text import compiled


@contextmanager
def changed_imports(texts: dict[str, str]) -> Iterator[None]:
    """Inside, these texts are loaded instead of the files; nothing is written, and afterwards the files count again.

    The loader of Python files is changed, not `sys.meta_path`: `importlib.util.spec_from_file_location`, by which programs load a
    file by its path, asks no finder (docs.python.org, `importlib`).

    Args:
        texts: the texts by the files' paths.
    """
    changed = {os.path.realpath(path): text for path, text in texts.items()}
    lines = {path: linecache.cache.get(path) for path in changed}
    get_code = SourceFileLoader.get_code

    def get_changed_code(loader: SourceFileLoader, fullname: str) -> types.CodeType | None:
        text = changed.get(os.path.realpath(loader.path))
        return get_code(loader, fullname) if text is None else compiled(text, loader.path)

    try:
        with replaced(SourceFileLoader, "get_code", get_changed_code):
            yield
    finally:
        for path, known in lines.items():
            linecache.cache.pop(path, None)
            if known:
                linecache.cache[path] = known
