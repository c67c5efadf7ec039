"""A normal form of answers: equal if they differ only in layout, comments and the names of local variables."""

from __future__ import annotations

import ast
import io
import tokenize


def normal_form(source: str) -> str:
    """Return the normal form of some code; if it is not valid Python, its words."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return " ".join(source.split())
    try:
        return ast.unparse(_Renamed(_own_names(tree)).visit(_without_docstrings(tree)))
    except RecursionError:
        return " ".join(source.split())


def without_comments(source: str) -> str:
    """Return the code without comments, because students write their names there; invalid Python is returned unchanged."""
    lines = source.splitlines()
    for token in comments_of(source):
        line, column = token.start
        lines[line - 1] = lines[line - 1][:column].rstrip()
    return "\n".join(lines).strip("\n")


def comments_of(source: str) -> list[tokenize.TokenInfo]:
    """Return the comments of some code; an empty list if it is not valid Python."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError):
        return []
    return [token for token in tokens if token.type == tokenize.COMMENT]


def _own_names(tree: ast.Module) -> dict[str, str]:
    """Return a new name for each variable that a function of the code binds, in the order of appearance."""
    names: dict[str, str] = {}
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            for node in ast.walk(function):
                name = node.arg if isinstance(node, ast.arg) else node.id if _is_made(node) else None  # type: ignore[attr-defined]
                if name is not None and name not in ("self", "cls"):
                    names.setdefault(name, f"v{len(names)}")
    return names


def _is_made(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            node.body = body[1:] or [ast.Pass()]  # type: ignore[attr-defined]
    return tree


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:  # the name that ast calls
        node.id = self._names.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg, node.annotation = self._names.get(node.arg, node.arg), None
        return node
