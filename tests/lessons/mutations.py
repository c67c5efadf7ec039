"""Small edits of a right answer, each of the kind that a learner's slip makes: a mutant that a good check refuses.

The edits are made on the syntax tree, one at a time, and named by what they do. Whether a mutant is wrong is not known
here: some edits change nothing that matters, and an oracle has to say which.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from autograder.tape.recording.verdict_types import OUTCOMES

COPIES = {"clone", "contiguous"}
SWAPPED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.Gt: ast.Lt, ast.Lt: ast.Gt}
UNEQUAL = (ast.Sub, ast.Div, ast.MatMult, ast.Pow)


class Mutant(NamedTuple):
    """One edited answer: what the edit does, and the whole text."""

    edit: str
    source: str


def mutants(source: str) -> list[Mutant]:
    """Returns every mutant of an answer, each with another text than the answer and than the others, in a fixed order."""
    tree = ast.parse(source)
    seen = {ast.unparse(tree)}
    found = []
    for position, node in enumerate(ast.walk(tree)):
        for edit, change in _edits(node):
            mutated = copy.deepcopy(tree)
            target = next(other for index, other in enumerate(ast.walk(mutated)) if index == position)
            text = _applied(mutated, target, change)
            if text is not None and text not in seen:
                seen.add(text)
                found.append(Mutant(f"{edit}: {ast.unparse(node).splitlines()[0][:60]}", text))
    return found


Change = Callable[[ast.AST], ast.AST | list | None]


def _edits(node: ast.AST) -> Iterator[tuple[str, Change]]:
    """Yields for one node what can be done to it; a change returns the node's replacement, None or [] to drop it."""
    if _is_write(node):
        yield "drops the write", lambda target: []
        yield "writes through .data", _through("data")
        yield "writes through .detach()", _through("detach")
    if isinstance(node, ast.AugAssign):
        yield "out of place for in place", _out_of_place
    if isinstance(node, ast.With):
        yield "records what was not recorded", lambda target: target.body
    if isinstance(node, ast.BinOp) and isinstance(node.op, UNEQUAL):
        yield "swaps the operands", _operands_swapped
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in SWAPPED:
        yield "another operator", _another_operator
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "drops the sign", lambda target: target.operand
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield "another constant", lambda target: ast.Constant(target.value + 1)
    if isinstance(node, ast.Constant) and node.value in OUTCOMES:
        for word in OUTCOMES:
            yield "another prediction", lambda target, word=word: ast.Constant(word)
    if isinstance(node, ast.BinOp):
        yield "detaches the left operand", _detached("left")
        yield "detaches the right operand", _detached("right")
    if isinstance(node, ast.Assign | ast.Return) and isinstance(node.value, ast.Call | ast.BinOp | ast.Name):
        yield "detaches the value", _detached("value")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from _edits_of_a_call(node)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        yield "the other comparison", _other_comparison


def _edits_of_a_call(node: ast.Call) -> Iterator[tuple[str, Change]]:
    name = node.func.attr
    if name in COPIES or name == "detach":
        yield f"drops .{name}()", lambda target: target.func.value
    if name == "detach":
        yield ".data for .detach()", lambda target: ast.Attribute(target.func.value, "data", ast.Load())
    if name.endswith("_") and hasattr(torch.Tensor, name[:-1]):
        yield "out of place for in place", _renamed(name[:-1])
    if not name.endswith("_") and hasattr(torch.Tensor, f"{name}_") and not _is_module(node.func.value):
        yield "in place for out of place", _renamed(f"{name}_")


def _is_write(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Subscript)
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(node, ast.AugAssign) or (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute))


def _through(alias: str) -> Change:
    def change(target: ast.AST) -> ast.AST:
        if isinstance(target, ast.Assign):
            target.targets[0].value = _alias(target.targets[0].value, alias)
        elif isinstance(target, ast.AugAssign):
            whole = ast.Subscript(_alias(_loaded(target.target), alias), ast.Constant(...), ast.Store())
            target.target = whole
        else:
            target.value.func.value = _alias(target.value.func.value, alias)
        return target

    return change


def _alias(expression: ast.expr, alias: str) -> ast.expr:
    attribute = ast.Attribute(expression, alias, ast.Load())
    return attribute if alias == "data" else ast.Call(attribute, [], [])


def _detached(field: str) -> Change:
    def change(target: ast.AST) -> ast.AST:
        setattr(target, field, _alias(getattr(target, field), "detach"))
        return target

    return change


def _renamed(name: str) -> Change:
    def change(target: ast.AST) -> ast.AST:
        target.func.attr = name
        return target

    return change


def _operands_swapped(target: ast.BinOp) -> ast.AST:
    target.left, target.right = target.right, target.left
    return target


def _another_operator(target: ast.BinOp | ast.AugAssign) -> ast.AST:
    target.op = SWAPPED[type(target.op)]()
    return target


def _other_comparison(target: ast.Compare) -> ast.AST:
    target.ops[0] = SWAPPED[type(target.ops[0])]()
    return target


def _out_of_place(target: ast.AugAssign) -> ast.AST:
    return ast.Assign([target.target], ast.BinOp(_loaded(target.target), target.op, target.value))


def _loaded(target: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(target), mode="eval").body


def _is_module(expression: ast.expr) -> bool:
    return isinstance(expression, ast.Name) and expression.id in {"torch", "F", "np", "nn"}


def _applied(tree: ast.Module, target: ast.AST, change: Change) -> str | None:
    """Returns the text with the one node replaced, None where nothing sensible is left."""

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST | list | None:
            return change(node) if node is target else self.generic_visit(node)

    changed = Replace().visit(tree)
    for node in ast.walk(changed):
        if isinstance(getattr(node, "body", None), list) and not node.body:
            node.body = [ast.Pass()]
    return ast.unparse(ast.fix_missing_locations(changed))
