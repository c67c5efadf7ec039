"""The edits that only an answer with tensors has: `.detach()` added or dropped, `.data`, in place and out of place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import torch

from autograder.grade.rehearsal.play.source_edits import Change, is_write, loaded
from autograder.tape.recording.verdict_types import OUTCOMES

COPIES = {"clone", "contiguous"}
MODULES = {"torch", "F", "np", "nn"}


def tensor_edits(node: ast.AST) -> Iterator[tuple[str, Change]]:
    """Yields the edits of a node that change what autograd sees."""
    if is_write(node):
        yield "writes through .data", _through("data")
        yield "writes through .detach()", _through("detach")
    if isinstance(node, ast.BinOp):
        yield "detaches the left operand", _detached("left")
        yield "detaches the right operand", _detached("right")
    if isinstance(node, (ast.Assign, ast.Return)) and isinstance(node.value, (ast.Call, ast.BinOp, ast.Name)):
        yield "detaches the value", _detached("value")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from _of_a_method(node.func)
    if isinstance(node, ast.Constant) and node.value in OUTCOMES:
        for word in OUTCOMES:
            yield "another prediction", _other_word(word)


def _of_a_method(function: ast.Attribute) -> Iterator[tuple[str, Change]]:
    name = function.attr
    if name in COPIES or name == "detach":
        yield f"drops .{name}()", lambda target: target.func.value
    if name == "detach":
        yield ".data for .detach()", lambda target: ast.Attribute(target.func.value, "data", ast.Load())
    if name.endswith("_") and hasattr(torch.Tensor, name[:-1]):
        yield "out of place for in place", _renamed(name[:-1])
    if not name.endswith("_") and hasattr(torch.Tensor, f"{name}_") and not _is_module(function.value):
        yield "in place for out of place", _renamed(f"{name}_")


def _through(alias: str) -> Change:
    def change(target: Any) -> ast.AST:
        if isinstance(target, ast.Assign):
            target.targets[0].value = _alias(target.targets[0].value, alias)  # type: ignore[attr-defined]
        elif isinstance(target, ast.AugAssign):
            target.target = ast.Subscript(_alias(loaded(target.target), alias), ast.Constant(...), ast.Store())
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
    def change(target: ast.Call) -> ast.AST:
        target.func.attr = name  # type: ignore[attr-defined]
        return target

    return change


def _other_word(word: str) -> Change:
    return lambda target: ast.Constant(word)


def _is_module(expression: ast.expr) -> bool:
    return isinstance(expression, ast.Name) and expression.id in MODULES
