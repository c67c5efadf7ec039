"""Fixes for a modification through another object with the same memory: `.data`, `.detach()`, NumPy, DLPack."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, TypeGuard

from autograder.tape.repair.broken_program import BrokenProgram, Candidate, each_then_all
from autograder.tape.repair.code_reader import NO_WRITES, InPlaceWrite, called, methods_called, of_module, sole_call
from autograder.tape.repair.edits import Edit, EditableSource, Edits
from autograder.tape.repair.kinds.clones import first_name
from autograder.tape.repair.kinds.out_of_place import drop_underscores, expand_operator, fills, made

COPIES = {"numpy": ".copy()", "__array__": ".copy()"} | dict.fromkeys(
    ("detach", "from_numpy", "from_dlpack", "as_tensor", "frombuffer"), ".clone()"
)


def copy_alias(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `d.detach()` with `d.detach().clone()`, likewise `.data`, and add `.copy()` to `.numpy()`: each alone, then all."""
    source = program.source
    nodes = list(ast.walk(source.tree))
    of_modules = {node for node in nodes if isinstance(node, ast.Attribute) and first_name(node) in source.imported}
    # Attributes of modules are such as `torch.utils.data`.
    yield from each_then_all("copy, not an alias", [copy_one(source, node) for node in nodes if node not in of_modules])


def copy_one(source: EditableSource, node: Any) -> Edits:
    """Return the edits that turn an alias into a copy, or () if the node is not an alias, or is part of a longer one."""
    holder = source.parents.get(node)
    inside = isinstance(holder, ast.Attribute) and holder.attr in {*COPIES, "data", "clone", "copy"}
    if inside or is_written(source, node):
        return ()
    if is_alias(node) and isinstance(node.ctx, ast.Load):
        end = source.span(node)[1]
        return (Edit(end - len("data"), end, "detach().clone()"),)
    if isinstance(node, ast.Call) and called(node) == "asarray":
        end = source.span(node.func)[1]
        return (Edit(end - len("asarray"), end, "array"),)
    if isinstance(node, ast.Call) and called(node) in COPIES:
        is_numpy = of_module(source, node) and source.of(node.func).split(".")[0] in ("np", "numpy")
        copying = ".copy()" if called(node) == "from_dlpack" and is_numpy else COPIES[called(node)]
        return (source.insert(node, copying, after=True),)
    return ()


def is_alias(node: Any) -> bool:
    """Return whether the node is `x.data`. `self.data` is excluded, because it is an attribute of the program's class."""
    return isinstance(node, ast.Attribute) and node.attr == "data" and ast.unparse(node.value) != "self"


def is_written(source: EditableSource, node: ast.AST) -> bool:
    """Return whether the expression modifies the alias directly, such as in `d.data.zero_()`, where a copy would have no effect."""
    while isinstance(holder := source.parents.get(node), ast.Attribute | ast.Subscript | ast.Call):
        if isinstance(holder, ast.Attribute) and holder.attr.endswith("_") and holder.attr not in NO_WRITES:
            return True
        if isinstance(holder, ast.Subscript) and isinstance(holder.ctx, ast.Store):
            return True
        if isinstance(holder, ast.Call) and node is not holder.func:
            return False
        node = holder
    return isinstance(holder, ast.AugAssign) and node is holder.target


def write_tracked(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `b.data.mul_(3)` with `b.mul_(3)`, which autograd records or rejects, and then with `b = b.mul(3)`.

    If the alias has a name, replace `a = b.detach()` with `a = b`.
    """
    for write in program.writes:
        for binding in program.source.bindings(write.name):
            if edits := remove_aliases(program.source, binding.value):
                yield Candidate("write where autograd sees it", edits)
        edits = remove_aliases(program.source, write.target)
        if edits:
            yield Candidate("write where autograd sees it", edits)
            everywhere = remove_aliases(program.source, program.source.scope(write.statement))
            yield Candidate("write where autograd sees it", everywhere)
        if edits and write.views <= {"data", "detach"}:
            rebound = rebind_tracked(program.source, write, edits)
            yield Candidate("write where autograd sees it, then out of place", rebound)


def rebind_tracked(source: EditableSource, write: InPlaceWrite, edits: Edits) -> Edits:
    """Return the edits that assign a new tensor with a graph, or () if the modification is not a complete statement.

    `edits` are those that remove the aliases.
    """
    if isinstance(write.node, ast.AugAssign):
        return (*edits, *expand_operator(source, write.node, write.name))
    if not write.is_alone:
        return ()
    if fills(write.node):
        return made(source, write)
    return (source.insert(write.node, f"{write.name} = "), *edits, *drop_underscores(source, write.node))


def remove_aliases(source: EditableSource, within: ast.AST) -> Edits:
    """Return the edits that remove each `.data`, `.detach()` and `.numpy()` below a node."""
    return tuple(edit for node in ast.walk(within) if (edit := remove_alias(source, node)))


def remove_alias(source: EditableSource, node: Any) -> Edit | None:
    """Return the edit that removes `.data`, `.detach()` or `.numpy()`, or None for other expressions."""
    is_call = isinstance(node, ast.Call) and called(node) in ("detach", "detach_", "numpy")
    attribute: Any = node.func if is_call else node
    if is_alias(node) or (attribute is not node and isinstance(attribute, ast.Attribute)):
        return Edit(source.dot(attribute), source.span(node)[1], "")
    return None


def keep_attached(program: BrokenProgram) -> Iterator[Candidate]:
    """Remove a `.detach()` or `.data` if the loss does not require grad."""
    if "does not require grad" not in program.verdict.error_message:
        return
    for node in ast.walk(program.source.tree):
        if is_detached_in_place(node):
            yield Candidate("keep the graph", (program.source.delete(node),))
        elif edit := remove_alias(program.source, node):
            yield Candidate("keep the graph", (edit,))


def is_detached_in_place(node: ast.AST) -> TypeGuard[ast.Expr]:
    """Return whether a node is the statement `….detach_()`."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and called(node.value) == "detach_"


def require_grad_earlier(program: BrokenProgram) -> Iterator[Candidate]:
    """Move `w.requires_grad_()` from below a use of w up to the assignment of w."""
    for statement in program.source.statements():
        call = sole_call(statement)
        if call and called(call) == "requires_grad_" and isinstance(call.func, ast.Attribute):
            for made in program.source.bindings(program.source.of(call.func.value)):
                if made.lineno < statement.lineno:
                    moved = program.source.insert_after(made, program.source.of(statement))
                    yield Candidate("ask for the gradient first", (program.source.delete(statement), moved))


def detach_for_numpy(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `h.numpy()` with `h.detach().numpy()`, as PyTorch's error message suggests."""
    if "Can't call numpy()" in program.verdict.error_message:
        for method in methods_called(program.source.tree, "numpy"):
            at = program.source.dot(method)
            yield Candidate("detach for NumPy", (Edit(at, at, ".detach()"),))


def remove_no_grad(program: BrokenProgram) -> Iterator[Candidate]:
    """Remove a `with torch.no_grad():` around code that should be differentiated."""
    for block in program.source.nodes(ast.With):
        switches = [item.context_expr for item in block.items if is_no_grad(item.context_expr)]
        if switches and len(block.items) == 1 and block.body[0].lineno > block.lineno:
            yield Candidate("let autograd record it", program.source.remove_header(block))
        elif switches:
            edits = tuple(program.source.replace(switch, "torch.enable_grad()") for switch in switches)
            yield Candidate("let autograd record it", edits)


def is_no_grad(node: ast.expr) -> bool:
    """Return whether the expression is `torch.no_grad()` or `torch.inference_mode()`."""
    return isinstance(node, ast.Call) and called(node) in ("no_grad", "inference_mode")


def replace_inference_mode(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `torch.inference_mode()` with `torch.no_grad()`, whose tensors have a version counter and can be saved."""
    for node in program.source.nodes(ast.Attribute):
        if node.attr == "inference_mode":
            end = program.source.span(node)[1]
            yield Candidate("no_grad, not inference_mode", (Edit(end - len("inference_mode"), end, "no_grad"),))
