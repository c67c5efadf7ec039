"""Mutants: small edits of a right answer that resemble mistakes of students, and that a good test rejects.

An edit changes one node of the syntax tree. Some edits do not change the behavior, so a mutant is not always wrong.
"""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from autograder.tape.recording.verdict_types import OUTCOMES

OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
}  # fmt: skip
COMPARISONS = {
    ast.Gt: (ast.Lt, ast.GtE), ast.Lt: (ast.Gt, ast.LtE), ast.GtE: (ast.Gt,), ast.LtE: (ast.Lt,),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
SIGNS = {ast.USub: "drops the sign", ast.Not: "drops the not", ast.Invert: "drops the not"}
NON_COMMUTATIVE = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.MatMult, ast.Pow)  # the order of the operands matters
SIMPLE = (ast.Assign, ast.AnnAssign, ast.Delete, ast.Expr, ast.Raise, ast.Assert, ast.Break, ast.Continue)
COPIES = ("clone", "contiguous", "detach")
MODULES = ("torch", "F", "np", "nn")

Edit = tuple[str, ast.AST | list[ast.stmt]]
"""The name of an edit, and the replacement of the node: another node or statements."""


@dataclass(frozen=True)
class Mutant:
    """One edited answer: the edit with the line that it changes, and the whole text."""

    edit: str
    source: str


def mutants(source: str, *, tensors: bool = True) -> list[Mutant]:
    """Return every mutant of an answer in plain Python, in a fixed order and without two that compile to the same code.

    `tensors` adds the edits that change the autograd graph.
    """
    tree = ast.parse(source)
    seen = {_compiled(ast.unparse(tree)), None}
    mutants = []
    for node in ast.walk(tree):
        for edit, replacement in (*_edits(node), *(_tensor_edits(node) if tensors else ())):
            text = _edited(tree, node, replacement)
            if (compiled := _compiled(text)) not in seen:
                seen.add(compiled)
                mutants.append(Mutant(f"{edit}: {ast.unparse(node).splitlines()[0][:60]}", text))
    return mutants


def _edited(tree: ast.Module, node: ast.AST, replacement: ast.AST | list[ast.stmt]) -> str:
    if isinstance(replacement, list):
        replacement = ast.Module(replacement or [ast.Pass()], [])  # the text of a module is the text of its statements
    edited = copy.deepcopy(tree, {id(node): replacement})  # the copy of the node is its replacement
    return ast.unparse(ast.fix_missing_locations(edited))


def _compiled(text: str) -> object:
    """Return the compiled code without the names of files and lines; None if the text does not compile."""
    try:
        return _comparable(compile(text, "", "exec", dont_inherit=True))
    except (SyntaxError, ValueError):
        return None


def _comparable(code: types.CodeType) -> tuple[Any, ...]:
    # 1 == True == 1.0, so constants are compared together with their types.
    constants = tuple(
        _comparable(value) if isinstance(value, types.CodeType) else (type(value), repr(value))
        for value in code.co_consts
    )
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


def _with(node: ast.AST, **fields: object) -> ast.AST:
    return type(node)(**{**vars(node), **fields})


def _edits(node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.stmt):
        yield from _statement_edits(node)
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in OPERATORS:
        yield "another operator", _with(node, op=OPERATORS[type(node.op)]())
    if isinstance(node, ast.BinOp) and isinstance(node.op, NON_COMMUTATIVE):
        yield "swaps the operands", _with(node, left=node.right, right=node.left)
    if isinstance(node, ast.UnaryOp) and type(node.op) in SIGNS:
        yield SIGNS[type(node.op)], node.operand
    if isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        yield "another constant", ast.Constant(not node.value if type(node.value) is bool else node.value + 1)  # type: ignore[operator]
    if isinstance(node, ast.Compare):
        for comparison in COMPARISONS.get(type(node.ops[0]), ()):
            yield "another comparison", _with(node, ops=[comparison(), *node.ops[1:]])
    if isinstance(node, ast.BoolOp):
        yield "the other of and and or", _with(node, op=ast.And() if isinstance(node.op, ast.Or) else ast.Or())
    if isinstance(node, ast.keyword) and node.arg in ("axis", "dim"):
        first = isinstance(node.value, ast.Constant) and node.value.value in (0, None)
        yield "another axis", _with(node, value=ast.Constant(1 if first else 0))


def _statement_edits(node: ast.stmt) -> Iterator[Edit]:
    if _is_write(node):
        yield "drops the write", []
        yield "writes twice", [node, node]
    elif isinstance(node, SIMPLE) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        yield "drops the statement", []
    if isinstance(node, ast.AugAssign):
        yield "out of place for in place", ast.Assign([node.target], ast.BinOp(node.target, node.op, node.value))
    if isinstance(node, ast.With):
        yield "drops the with", node.body
    if isinstance(node, ast.If):
        yield "the other branch", _with(node, test=ast.UnaryOp(ast.Not(), node.test))
        yield "drops the branch", node.orelse
    if isinstance(node, ast.FunctionDef) and len(node.body) > 1:
        *before, loop, last = node.body
        if isinstance(loop, (ast.For, ast.While)) and isinstance(last, ast.Return):
            returning = _with(loop, body=[*loop.body, last])
            yield "returns in the loop's first turn", _with(node, body=[*before, returning, last])


def _is_write(node: ast.AST) -> bool:
    """Return whether a statement may write into existing memory."""
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Subscript)
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(node, ast.AugAssign) or (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute))


def _tensor_edits(node: ast.AST) -> Iterator[Edit]:
    """Yield the edits of a node that change the recording of autograd."""
    if _is_write(node):
        yield "writes through .data", _writing_through(node, "data")
        yield "writes through .detach()", _writing_through(node, "detach")
    if isinstance(node, ast.BinOp):
        yield "detaches the left operand", _with(node, left=_alias(node.left, "detach"))
        yield "detaches the right operand", _with(node, right=_alias(node.right, "detach"))
    if isinstance(node, (ast.Assign, ast.Return)) and isinstance(node.value, (ast.Call, ast.BinOp, ast.Name)):
        yield "detaches the value", _with(node, value=_alias(node.value, "detach"))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from _method_edits(node, node.func)
    if isinstance(node, ast.Constant) and node.value in OUTCOMES:
        for word in OUTCOMES:
            yield "another prediction", ast.Constant(word)


def _method_edits(call: ast.Call, method: ast.Attribute) -> Iterator[Edit]:
    from torch import Tensor

    name = method.attr
    if name in COPIES:
        yield f"drops .{name}()", method.value
    if name == "detach":
        yield ".data for .detach()", _alias(method.value, "data")
    if name.endswith("_") and hasattr(Tensor, name[:-1]):
        yield "out of place for in place", _with(call, func=_with(method, attr=name[:-1]))
    on_module = isinstance(method.value, ast.Name) and method.value.id in MODULES
    if not name.endswith("_") and hasattr(Tensor, f"{name}_") and not on_module:
        yield "in place for out of place", _with(call, func=_with(method, attr=f"{name}_"))


def _writing_through(node: ast.AST, alias: str) -> ast.AST:
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        return _with(node, targets=[_with(target, value=_alias(target.value, alias)), *node.targets[1:]])  # type: ignore[attr-defined]
    if isinstance(node, ast.AugAssign):
        return _with(node, target=ast.Subscript(_alias(node.target, alias), ast.Constant(...), ast.Store()))
    call = node.value  # type: ignore[attr-defined]
    return _with(node, value=_with(call, func=_with(call.func, value=_alias(call.func.value, alias))))


def _alias(expression: ast.expr, alias: str) -> ast.expr:
    attribute = ast.Attribute(expression, alias, ast.Load())
    return attribute if alias == "data" else ast.Call(attribute, [], [])
