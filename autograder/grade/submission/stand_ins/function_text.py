"""The code of a learner's functions, compiled from the notebook's text and never run, for `inspect`."""

from __future__ import annotations

import functools
import hashlib
import linecache
import types
from collections.abc import Iterator

from autograder.grade.submission.cell_analysis import transformed


def function_code(cells: list[str], qualified: str) -> types.CodeType | None:
    """Returns the code of the last definition of a function in these cells, by its qualified name, e.g. "Stack.push"."""
    return next((code for cell in reversed(cells) if (code := _codes(cell).get(qualified)) is not None), None)


@functools.lru_cache(maxsize=500)
def _codes(cell: str) -> dict[str, types.CodeType]:
    text = transformed(cell)
    file = f"<cell {hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}>"
    try:
        module = compile(text, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    # inspect.getsource looks here; an entry without a time is never dropped as out of date.
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    return {code.co_qualname: code for code in _inside(module)}


def _inside(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _inside(constant)
