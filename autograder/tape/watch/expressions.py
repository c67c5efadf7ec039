"""Find the expressions of the modified tensor and of the saved tensors in the source of a call."""

from __future__ import annotations

import ast
import functools
import linecache

from autograder.tape.internals.heard_calls import EXPOSING
from autograder.tape.observe.graph.tensors import FOREIGN
from autograder.tape.observe.memory.write_text import written_through
from autograder.tape.watch.call_sites import CallSite


@functools.lru_cache(maxsize=64)
def _nodes_at(file: str, text: str) -> dict[tuple[int, int, int, int], list[ast.AST]]:
    """Return the expressions and statements of a file, sorted by position; at equal positions, the outermost comes first."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # for example a magic command of a notebook
        return {}
    found: dict[tuple[int, int, int, int], list[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.stmt)):
            span = node.lineno, node.end_lineno or node.lineno, node.col_offset, node.end_col_offset or 0
            found.setdefault(span, []).append(node)
            if isinstance(node, ast.Assign):
                for inner in ast.walk(node.value):
                    inner.statement = node  # type: ignore[attr-defined]
    return found


def call_at(site: CallSite) -> ast.AST | None:
    """Return the expression or assignment at a call site, or None if the source is not available."""
    file = site.code.co_filename
    return next(iter(_nodes_at(file, "".join(linecache.getlines(file))).get(site.span, ())), None)


def written_expression(site: CallSite) -> str | None:
    """Return the expression that a call modifies, as in the source: "h" for `h += 1` and "h.data" for `h.data.mul_(2)`."""
    node = call_at(site)
    if isinstance(node, ast.Expr):
        node = node.value
    if isinstance(node, ast.AugAssign):
        return ast.unparse(node.target)
    if isinstance(node, (ast.Subscript, ast.Attribute)):  # such as h[0] = 1 and w.data = v
        return ast.unparse(node.value)
    if isinstance(node, ast.Call):
        return _written_argument(node)
    return None


def _written_argument(call: ast.Call) -> str | None:
    """Return the target of an in-place method, an in-place function or an `out=`, or None if the text does not name it."""
    words = {word.arg: word.value for word in call.keywords}
    if "out" in words:
        return ast.unparse(words["out"])
    owner, name = (call.func.value, call.func.attr) if isinstance(call.func, ast.Attribute) else (None, "")
    if name.endswith("_") and owner is not None and not _is_namespace(owner):
        return ast.unparse(owner)
    return ast.unparse(call.args[0]) if call.args and (name.endswith("_") or "inplace" in words) else None


def _is_namespace(owner: ast.expr) -> bool:
    return isinstance(owner, ast.Name) and owner.id in ("torch", "F", "functional", "nn", "init")


def foreign_writes(site: CallSite) -> tuple[str, list[int]] | None:
    """Return the variable that shares a tensor's memory, and the lines of the same file that modify it.

    The variable is `n` for `n = h.numpy()` and for `h = torch.from_numpy(n)`.
    """
    call = call_at(site)
    given = call.args[0] if isinstance(call, ast.Call) and call.args else None
    name = given.id if isinstance(given, ast.Name) and site.called in FOREIGN else _target(call)
    if name is None or site.called not in {*FOREIGN, *EXPOSING}:
        return None
    file = site.code.co_filename
    nodes = _nodes_at(file, "".join(linecache.getlines(file)))
    statements = [
        node for group in nodes.values() for node in group if isinstance(node, (ast.Expr, ast.Assign, ast.AugAssign))
    ]
    first = site.code.co_firstlineno
    lines = {
        node.lineno for node in statements if node.lineno >= first and written_through(ast.unparse(node))[0] == name
    }
    return name, sorted(lines)


# Names under which nodes save the operands of operators and calls (derivatives.yaml, PyTorch 2.13).
_FIRST, _SECOND = ("self", "input", "mat1"), ("other", "mat2", "exponent", "weight")
_MADE = ("result", "output")


def saved_expression(site: CallSite, name: str) -> str | None:
    """Return the expression that a call's node saved as `name`, as in the source, or None if the text does not name it."""
    node = call_at(site)
    if name in _MADE:
        return _target(node)
    if isinstance(node, ast.AugAssign):
        found: ast.expr | None = {True: node.target}.get(name in _FIRST, node.value if name in _SECOND else None)
    elif isinstance(node, ast.BinOp):
        found = {True: node.left}.get(name in _FIRST, node.right if name in _SECOND else None)
    elif isinstance(node, ast.Call):
        found = _operand(node, name)
    else:
        return None
    return ast.unparse(found) if isinstance(found, (ast.Name, ast.Attribute, ast.Subscript)) else None


def _target(node: ast.AST | None) -> str | None:
    """Return the variable that a call's result is assigned to, or None if the right-hand side contains more than the call."""
    statement = getattr(node, "statement", None)
    if statement is None or statement.value is not node or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    return ast.unparse(target) if isinstance(target, (ast.Name, ast.Attribute)) else None


def _operand(call: ast.Call, name: str) -> ast.expr | None:
    operands = list(call.args)
    if isinstance(call.func, ast.Attribute) and not _is_namespace(call.func.value):
        if isinstance(call.func.value, ast.Name) and call.func.value.id == "self":
            return operands[0] if name in _FIRST and len(operands) == 1 else None  # a layer of a module
        operands.insert(0, call.func.value)
    place = 0 if name in _FIRST else 1 if name in _SECOND else len(operands)
    return operands[place] if place < len(operands) else None
