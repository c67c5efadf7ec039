"""The text of an answer, reduced to what it does: no comments, docstrings, annotations or name."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any


def normal_form(target: Callable[..., Any]) -> str | None:
    """Returns the code of a function or class in a form that is equal for equal programs, or None where it has no source.

    Two answers that differ only in comments, blank lines, docstrings, annotations or their own name have one normal form.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(target)))
    except (OSError, TypeError, SyntaxError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            node.body = _without_docstring(node.body)
        if isinstance(node, ast.FunctionDef):
            node.decorator_list, node.returns = [], None
        if isinstance(node, ast.arg):
            node.annotation = None
    definition = tree.body[0]
    if isinstance(definition, (ast.FunctionDef, ast.ClassDef)):
        definition.name = "answer"
    return ast.dump(tree)


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    return body[1:] if is_docstring else body
