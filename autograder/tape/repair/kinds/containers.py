"""Fixes for a loop that updates the tensors of a list or dictionary in place: build a new container."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.tape.repair.broken_program import BrokenProgram, Candidate
from autograder.tape.repair.source.edits import EditableSource, Edits, replace
from autograder.tape.repair.source.inplace_finder import InPlaceWrite, called

OPERATORS = {"add_": "+", "sub_": "-", "mul_": "*", "div_": "/"}


def rebuild_list(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `for w, g in zip(fast, grads): w -= g` with `fast = [w - g for w, g in zip(fast, grads)]`, also for dictionaries."""
    for write in program.writes:
        loop = program.source.parents[write.statement]
        if not isinstance(loop, ast.For) or loop.body != [write.statement] or loop.orelse:
            continue
        if isinstance(write.root, ast.Name) and not write.path and (edits := rebuild(program.source, loop, write)):
            yield Candidate("build a new container", edits)


def rebuild(source: EditableSource, loop: ast.For, write: InPlaceWrite) -> Edits:
    """Return the edit that replaces the loop with a comprehension, or () if the loop does not iterate over a named container."""
    value, found = new_value(source, write), container(loop, source.of(write.root))
    if not value or found is None:
        return ()
    held, key = found
    each = f"for {source.of(loop.target)} in {source.of(loop.iter)}"
    built = f"{{{key}: {value} {each}}}" if key else f"[{value} {each}]"
    return (replace(source, loop, f"{held} = {built}"),)


def new_value(source: EditableSource, write: InPlaceWrite) -> str:
    """Return the expression of the updated value, or "" if the modification is not a simple update."""
    name = source.of(write.root)
    if isinstance(write.node, ast.AugAssign):
        operator = ast.unparse(ast.BinOp(ast.Name("a"), write.node.op, ast.Name("b"))).split()[1]
        return f"{name} {operator} {source.factor(write.node.value)}"
    call = write.node
    if isinstance(call, ast.Call) and called(call) in OPERATORS and isinstance(write.statement, ast.Expr):
        arguments = ", ".join(source.of(one) for one in [*call.args, *call.keywords])
        return f"{name}.{called(call).removesuffix('_')}({arguments})"
    return ""


def container(loop: ast.For, name: str) -> tuple[str, str] | None:
    """Return the name of the list or dictionary whose values the loop assigns to `name`, and the name of the key ("" for a list)."""
    targets, sources = [loop.target], [loop.iter]
    if isinstance(loop.iter, ast.Call) and called(loop.iter) == "zip" and isinstance(loop.target, ast.Tuple):
        targets, sources = list(loop.target.elts), list(loop.iter.args)
    for target, one in zip(targets, sources, strict=False):
        if isinstance(target, ast.Name) and target.id == name and isinstance(one, ast.Name):
            return one.id, ""
        if is_items(one) and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            key, value = map(ast.unparse, target.elts)
            if value == name:
                return ast.unparse(one.func.value), key  # type: ignore[attr-defined]
    return None


def is_items(node: ast.expr) -> bool:
    """Return whether the expression is `name.items()`."""
    return (
        isinstance(node, ast.Call)
        and called(node) == "items"
        and isinstance(getattr(node.func, "value", None), ast.Name)
    )
