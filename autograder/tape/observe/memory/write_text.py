"""Find the modified expression and the operation in the source of a statement, if no function reported the modification."""

from __future__ import annotations

import ast


def written_through(text: str) -> tuple[str | None, str]:
    """Return the modified expression of a line and the operation, such as ("n", "__setitem__") for `n[:] = 0`."""
    line = text.strip()
    try:
        statements = ast.parse(f"{line} pass" if line.endswith(":") else line).body
    except (SyntaxError, ValueError):  # a part of a longer statement
        return None, "unseen"
    return next((found for found in map(_target, statements) if found[0] is not None), (None, "unseen"))


def _target(statement: ast.stmt) -> tuple[str | None, str]:
    if isinstance(statement, (ast.With, ast.For, ast.If, ast.While)):
        return next((found for found in map(_target, statement.body) if found[0] is not None), (None, "unseen"))
    if isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        if isinstance(target, ast.Subscript):
            return ast.unparse(target.value), "__setitem__"
        if isinstance(target, ast.Attribute):
            return ast.unparse(target.value), f"{target.attr} ="
        return (ast.unparse(target), "in place") if isinstance(statement, ast.AugAssign) else (None, "unseen")
    call = getattr(statement, "value", None)
    return _call(call) if isinstance(call, ast.Call) else (None, "unseen")


def _call(call: ast.Call) -> tuple[str | None, str]:
    out = next((keyword.value for keyword in call.keywords if keyword.arg == "out"), None)
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    if out is not None:
        return ast.unparse(out), name
    if isinstance(call.func, ast.Attribute) and not isinstance(call.func.value, ast.Name):
        return ast.unparse(call.func.value), name
    if isinstance(call.func, ast.Attribute) and call.func.value.id not in ("np", "numpy", "torch", "ctypes"):  # type: ignore[attr-defined]
        return call.func.value.id, name  # type: ignore[attr-defined]
    return (ast.unparse(call.args[0]), name) if call.args else (None, name)
