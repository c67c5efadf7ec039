"""The code of an answer without comments, docstrings, annotations and its name."""

from __future__ import annotations

import ast
import inspect
import linecache
import pickle
import textwrap
import traceback
from collections.abc import Callable, Sequence
from typing import Any


def normal_form(target: Callable[..., Any]) -> str | None:
    """Return the code of a function or class in a form that is equal for equal programs, or None if it has no source.

    Two answers that differ only in comments, blank lines, docstrings, annotations or their own name have the same
    normal form.
    """
    if isinstance(target, type):
        # inspect does not find a class that a cell defined (Python 3.11 looks for __main__'s file), but finds its methods.
        forms = [normal_form(member) for member in vars(target).values() if inspect.isfunction(member)]
        return None if None in forms else repr(forms)
    try:
        return _form(_definition(target))
    except (OSError, TypeError, SyntaxError):
        return None


def normal_form_of(definition: ast.stmt) -> str:
    """Return the normal form of a parsed function or class definition; see `normal_form`."""
    return _form(pickle.loads(pickle.dumps(definition)))  # several times as fast as copy.deepcopy


def _form(definition: ast.stmt) -> str:
    """Return the normal form; modifies the tree."""
    if isinstance(definition, ast.ClassDef):
        return repr([_form(member) for member in definition.body if isinstance(member, ast.FunctionDef)])
    tree = ast.Module([definition], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            docstring = ast.get_docstring(node, clean=False)
            node.body, node.returns = node.body[docstring is not None :], None
        if isinstance(node, ast.arg):
            node.annotation = None
    if isinstance(definition, ast.FunctionDef):
        definition.name = "answer"
    return ast.dump(tree)


def source_of(function: Callable[..., Any]) -> str:
    """Return the source of a function.

    Raises:
        OSError, TypeError: it has no source.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    # inspect.getsource would search each of PyTorch's 2,000 modules for the function, to find the same lines.
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :] if code else []
    return "".join(inspect.getblock(lines)) if lines else inspect.getsource(function)


def _definition(function: Callable[..., Any]) -> ast.stmt:
    return ast.parse(textwrap.dedent(source_of(function))).body[0]


def own_function(target: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is defined in the answer's cell.

    For a class, this is its forward or else another method: the inherited `nn.Module.forward` is in PyTorch's own file.
    """
    if not isinstance(target, type):
        return target
    methods = {name: method for name, method in vars(target).items() if inspect.isfunction(method)}
    return methods.get("forward") or next(iter(methods.values()), getattr(target, "forward", target))


def line_of(target: Callable[..., Any], frames: Sequence[traceback.FrameSummary]) -> tuple[int | None, str]:
    """Return the line number and text of the last, innermost frame in the answer's cell; (None, "") if there is no such frame."""
    code = getattr(own_function(target), "__code__", None)
    for frame in reversed(frames):
        if code is not None and frame.filename == code.co_filename:
            return frame.lineno, (frame.line or "").strip()
    return None, ""


def words(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return every name and attribute in a function's code, sorted; empty if it has no source."""
    if isinstance(function, type):
        members = [words(member) for member in vars(function).values() if inspect.isfunction(member)]
        return tuple(sorted({word for texts in members for word in texts}))
    try:
        return words_of(_definition(function))
    except (OSError, TypeError, SyntaxError):
        return ()


def functions_used(target: Callable[..., Any]) -> set[Callable[..., Any]]:
    """Return the functions and classes of the notebook that an answer uses, directly or through others."""
    functions: set[Callable[..., Any]] = set()
    waiting = [target]
    while waiting:
        using = waiting.pop()
        methods = (
            [value for value in vars(using).values() if inspect.isfunction(value)] if inspect.isclass(using) else []
        )
        first = methods[0] if methods else using
        space = getattr(first, "__globals__", {})
        for name in words(using):
            used = space.get(name)
            if (inspect.isfunction(used) or inspect.isclass(used)) and used.__module__ == target.__module__:
                waiting += [] if used in functions else [used]
                functions.add(used)
    return functions


def words_of(tree: ast.AST) -> tuple[str, ...]:
    """Return every name and attribute in a piece of code, and every part of the imported module names, sorted."""
    return tuple(sorted({word for node in ast.walk(tree) for word in _words(node)}))


def _words(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.alias):
        return node.name.split(".")
    return (node.module or "").split(".") if isinstance(node, ast.ImportFrom) else []
