"""Import the project's files with a changed source text, without writing to them."""

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
    """Load these sources instead of the files in the block.

    Replace a method of the loader for Python files instead of adding a finder to `sys.meta_path`, because
    `importlib.util.spec_from_file_location`, which programs use to load a file by path, calls no finder
    (docs.python.org, `importlib`).

    Args:
        texts: the sources by path of the file.
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
