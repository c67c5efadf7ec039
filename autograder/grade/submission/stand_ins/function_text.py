"""The code of a learner's functions, compiled from the notebook's text and never run, for `inspect`."""

from __future__ import annotations

import ast
import functools
import hashlib
import linecache
import types
from collections.abc import Iterator

from autograder.grade.submission.cell_analysis import bound_names, statements, transformed

FILE = "<cell "
"""How the file name of such code begins."""


def function_code(cells: list[str], qualified: str) -> types.CodeType | None:
    """Returns the code of the last definition of a function in these cells, by its qualified name, e.g. "Stack.push".

    Where the name was last bound to another one, `total = add_up`, it is the code of that.
    """
    for index in reversed(range(len(cells))):
        name = _aliases(cells[index]).get(qualified, qualified)
        if (code := _codes(cells[index]).get(name)) is not None:
            return code
        if name != qualified:
            return function_code(cells[:index], name)
    return None


@functools.lru_cache(maxsize=500)
def _codes(cell: str) -> dict[str, types.CodeType]:
    text = transformed(cell)
    file = f"{FILE}{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}>"
    try:
        module = compile(text, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    # inspect.getsource looks here; an entry without a time is never dropped as out of date.
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    codes = list(_inside(module))
    lambdas = {f"<lambda>:{code.co_firstlineno}": code for code in codes if code.co_name == "<lambda>"}
    return lambdas | {code.co_qualname: code for code in codes}


@functools.lru_cache(maxsize=500)
def _aliases(cell: str) -> dict[str, str]:
    """Returns the names that a cell's last statement about them binds to another name."""
    found: dict[str, str] = {}
    for part in statements(cell):
        for name in bound_names(part):
            found.pop(name, None)
        if isinstance(part, ast.Assign) and isinstance(part.value, (ast.Name, ast.Lambda)):
            name = part.value.id if isinstance(part.value, ast.Name) else f"<lambda>:{part.value.lineno}"
            found |= {target.id: name for target in part.targets if isinstance(target, ast.Name)}
    return found


def _inside(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _inside(constant)
