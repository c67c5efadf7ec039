"""What a learner's slip changes: for one node of a right answer's syntax tree, the edits that can be made to it.

Every edit is a name and a change; a change takes the node and returns its replacement, a list of statements, or [] to drop it.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from typing import Any

Change = Callable[[Any], ast.AST | list]

OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
}
COMPARISONS = {
    ast.Gt: (ast.Lt, ast.GtE),
    ast.Lt: (ast.Gt, ast.LtE),
    ast.GtE: (ast.Gt,),
    ast.LtE: (ast.Lt,),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
UNEQUAL = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.MatMult, ast.Pow)
AXES = {"axis", "dim"}
SIMPLE = (
    ast.Assign,
    ast.AugAssign,
    ast.AnnAssign,
    ast.Delete,
    ast.Expr,
    ast.Raise,
    ast.Assert,
    ast.Break,
    ast.Continue,
)


def edits(node: ast.AST) -> Iterator[tuple[str, Change]]:
    """Yields the edits of a node that make sense in any Python."""
    if isinstance(node, ast.expr):
        yield from _of_an_expression(node)
    elif isinstance(node, ast.stmt):
        yield from _of_a_statement(node)
    elif isinstance(node, ast.keyword) and node.arg in AXES:
        yield "another axis", _other_axis


def is_write(node: ast.AST) -> bool:
    """Returns whether a statement may write into memory that was there before."""
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Subscript)
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(node, ast.AugAssign) or (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute))


def _of_a_statement(node: ast.stmt) -> Iterator[tuple[str, Change]]:
    if is_write(node):
        yield "drops the write", lambda target: []
        yield "writes twice", lambda target: [target, copy.deepcopy(target)]
    elif isinstance(node, SIMPLE) and not _is_docstring(node):
        yield "drops the statement", lambda target: []
    if isinstance(node, ast.AugAssign):
        yield "out of place for in place", _out_of_place
        yield from _of_an_operator(node)
    if isinstance(node, ast.With):
        yield "drops the with", lambda target: target.body
    if isinstance(node, ast.If):
        yield "the other branch", _negated
        yield "drops the branch", lambda target: target.orelse
    if isinstance(node, ast.FunctionDef) and len(node.body) > 1:
        yield from _early_returns(node)


def _of_an_expression(node: ast.expr) -> Iterator[tuple[str, Change]]:
    if isinstance(node, ast.BinOp):
        yield from _of_an_operator(node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, UNEQUAL):
        yield "swaps the operands", _operands_swapped
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not, ast.Invert)):
        yield "drops the sign" if isinstance(node.op, ast.USub) else "drops the not", lambda target: target.operand
    if isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        yield "another constant", _other_constant
    if isinstance(node, ast.Compare):
        for comparison in COMPARISONS.get(type(node.ops[0]), ()):
            yield "another comparison", _with_comparison(comparison)
    if isinstance(node, ast.BoolOp):
        yield "the other of and and or", _other_bool_op


def _of_an_operator(node: ast.BinOp | ast.AugAssign) -> Iterator[tuple[str, Change]]:
    if type(node.op) in OPERATORS:
        yield "another operator", _other_operator


def _early_returns(node: ast.FunctionDef) -> Iterator[tuple[str, Change]]:
    """Yields one edit for each loop directly before the function's last return: the return slips into the loop."""
    last = node.body[-1]
    if isinstance(last, ast.Return) and isinstance(node.body[-2], (ast.For, ast.While)):
        yield "returns in the loop's first turn", _return_in_the_loop


def _return_in_the_loop(target: ast.FunctionDef) -> ast.AST:
    target.body[-2].body.append(copy.deepcopy(target.body[-1]))  # type: ignore[attr-defined]
    return target


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _negated(target: ast.If) -> ast.AST:
    target.test = ast.UnaryOp(ast.Not(), target.test)
    return target


def _other_axis(target: ast.keyword) -> ast.AST:
    right = target.value
    target.value = ast.Constant(1 if isinstance(right, ast.Constant) and right.value in (0, None) else 0)
    return target


def _other_constant(target: ast.Constant) -> ast.AST:
    return ast.Constant(not target.value if isinstance(target.value, bool) else target.value + 1)  # type: ignore[operator]


def _other_operator(target: ast.BinOp | ast.AugAssign) -> ast.AST:
    target.op = OPERATORS[type(target.op)]()
    return target


def _other_bool_op(target: ast.BoolOp) -> ast.AST:
    target.op = ast.And() if isinstance(target.op, ast.Or) else ast.Or()
    return target


def _with_comparison(comparison: type[ast.cmpop]) -> Change:
    def change(target: ast.Compare) -> ast.AST:
        target.ops[0] = comparison()
        return target

    return change


def _operands_swapped(target: ast.BinOp) -> ast.AST:
    target.left, target.right = target.right, target.left
    return target


def _out_of_place(target: ast.AugAssign) -> ast.AST:
    return ast.Assign([target.target], ast.BinOp(loaded(target.target), target.op, target.value))


def loaded(target: ast.expr) -> ast.expr:
    """Returns the expression that reads what an assignment's target names."""
    return ast.parse(ast.unparse(target), mode="eval").body
