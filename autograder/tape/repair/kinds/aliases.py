"""Repairs where the write goes through another object on the same memory: `.data`, `.detach()`, NumPy, DLPack."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from autograder.tape.repair.case import Candidate, Case
from autograder.tape.repair.edits import Edit, EditableSource, Edits, after, delete, every, insert, replace
from autograder.tape.repair.inplace_finder import called, of_module
from autograder.tape.repair.kinds.clones import bindings

COPIES = {
    "numpy": ".copy()",
    "detach": ".clone()",
    "from_numpy": ".clone()",
    "from_dlpack": ".clone()",
    "__array__": ".copy()",
}
COPIES |= {"as_tensor": ".clone()", "frombuffer": ".clone()"}


def alias_copied(case: Case) -> Iterator[Candidate]:
    """`d.detach()` becomes `d.detach().clone()`, `.data` the same, `.numpy()` gets `.copy()`: each alone, then all of them."""
    found = [edits for node in ast.walk(case.source.tree) if (edits := copied(case.source, node))]
    for edits in found:
        yield Candidate("copy, not an alias", edits)
    if len(found) > 1:
        yield Candidate("copy, not an alias", tuple(edit for edits in found for edit in edits))


def copied(source: EditableSource, node: ast.AST) -> Edits:
    """Returns the edits that make an alias a copy; () for what is no alias, or the inner part of a longer one."""
    holder = source.parents.get(node)
    inside = isinstance(holder, ast.Attribute) and holder.attr in {*COPIES, "data", "clone", "copy"}
    if inside or is_written(source, node):
        return ()
    if isinstance(node, ast.Attribute) and node.attr == "data" and isinstance(node.ctx, ast.Load):
        end = source.span(node)[1]
        return (Edit(end - len("data"), end, "detach().clone()"),)
    if isinstance(node, ast.Call) and called(node) == "asarray":
        end = source.span(node.func)[1]
        return (Edit(end - len("asarray"), end, "array"),)
    if isinstance(node, ast.Call) and called(node) in COPIES:
        copies_from_numpy = called(node) == "from_dlpack" and first_is_numpy(source, node)
        return (insert(source, node, ".copy()" if copies_from_numpy else COPIES[called(node)], after=True),)
    return ()


def first_is_numpy(source: EditableSource, call: ast.Call) -> bool:
    """Whether the function belongs to NumPy, by its usual names."""
    return of_module(source, call) and source.of(call.func).split(".")[0] in ("np", "numpy")


def is_written(source: EditableSource, node: ast.AST) -> bool:
    """Whether the alias is itself written at once, as in `d.data.zero_()`: a copy there would write nothing."""
    while isinstance(holder := source.parents.get(node), ast.Attribute | ast.Subscript | ast.Call):
        if isinstance(holder, ast.Attribute) and holder.attr.endswith("_"):
            return True
        if isinstance(holder, ast.Subscript) and isinstance(holder.ctx, ast.Store):
            return True
        if isinstance(holder, ast.Call) and node is not holder.func:
            return False
        node = holder
    return isinstance(holder, ast.AugAssign) and node is holder.target


def tracked_write(case: Case) -> Iterator[Candidate]:
    """`b.data.mul_(3)` becomes `b.mul_(3)`: a write that autograd sees is differentiated, or refused where it does harm."""
    for write in case.writes:
        edits = every_alias_off(case.source, write.target)
        if edits:
            yield Candidate("write where autograd sees it", edits)
            yield Candidate(
                "write where autograd sees it", every_alias_off(case.source, case.source.scope(write.statement))
            )


def every_alias_off(source: EditableSource, within: ast.AST) -> Edits:
    """Returns the edits that take each `.data`, `.detach()` and `.numpy()` below a node off."""
    return tuple(edit for node in ast.walk(within) if (edit := unwrapped(source, node)))


def unwrapped(source: EditableSource, node: Any) -> Edit | None:
    """Returns the edit that takes `.data`, `.detach()` or `.numpy()` off, None where there is none of them."""
    is_detach = (
        isinstance(node, ast.Call) and called(node) in ("detach", "numpy") and isinstance(node.func, ast.Attribute)
    )
    is_data = isinstance(node, ast.Attribute) and node.attr == "data"
    if not is_detach and not is_data:
        return None
    return Edit(source.dot(node.func if is_detach else node), source.span(node)[1], "")


def attached(case: Case) -> Iterator[Candidate]:
    """Where nothing leads back to a leaf, `.detach()` or `.data` on the way to the loss is taken off."""
    if not case.verdict.error or "does not require grad" not in case.verdict.error.message:
        return
    for node in ast.walk(case.source.tree):
        if edit := unwrapped(case.source, node):
            yield Candidate("keep the graph", (edit,))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and called(node.value) == "detach_":
            yield Candidate("keep the graph", (delete(case.source, node),))


def asked_early(case: Case) -> Iterator[Candidate]:
    """`w.requires_grad_()` that comes after w was used moves up to where w is made."""
    for statement in case.source.statements():
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and called(call) == "requires_grad_" and isinstance(call.func, ast.Attribute):
            for made in bindings(case.source, case.source.of(call.func.value)):
                if made.lineno < statement.lineno:
                    edits = (delete(case.source, statement), after(case.source, made, case.source.of(statement)))
                    yield Candidate("ask for the gradient first", edits)


def detached_for_numpy(case: Case) -> Iterator[Candidate]:
    """`h.numpy()` becomes `h.detach().numpy()`, as PyTorch's own message says."""
    if case.verdict.error and "Can't call numpy()" in case.verdict.error.message:
        for node in ast.walk(case.source.tree):
            if isinstance(node, ast.Call) and called(node) == "numpy" and isinstance(node.func, ast.Attribute):
                at = case.source.dot(node.func)
                yield Candidate("detach for NumPy", (Edit(at, at, ".detach()"),))


def no_grad_lifted(case: Case) -> Iterator[Candidate]:
    """A `with torch.no_grad():` around what should be differentiated is taken away."""
    for block in every(ast.With, case.source.tree):
        switches = [one.context_expr for one in block.items if is_no_grad(one.context_expr)]
        if switches and len(block.items) == 1 and block.body[0].lineno > block.lineno:
            yield Candidate("let autograd record it", lifted(case.source, block))
        elif switches:
            edits = tuple(replace(case.source, one, "torch.enable_grad()") for one in switches)
            yield Candidate("let autograd record it", edits)


def is_no_grad(node: ast.expr) -> bool:
    """Whether the expression is `torch.no_grad()` or the like."""
    return isinstance(node, ast.Call) and called(node) in ("no_grad", "inference_mode")


def lifted(source: EditableSource, block: ast.With) -> Edits:
    """Returns the edits that take a block's header away and its body one step out."""
    start, body = source.span(block)[0], source.span(block.body[0])[0]
    surplus = source.indent(block.body[0]).removeprefix(source.indent(block))
    breaks = [source.starts[line] for line in range(block.body[0].lineno, block.end_lineno or 0)]
    depth = len(source.indent(block).encode())
    inside = [at + depth for at in breaks if source.data[at + depth :].startswith(surplus.encode())]
    return (Edit(start, body, ""), *(Edit(at, at + len(surplus), "") for at in inside))


def inference_mode(case: Case) -> Iterator[Candidate]:
    """`torch.inference_mode()` becomes `torch.no_grad()`: its tensors keep a counter and may be saved."""
    for node in ast.walk(case.source.tree):
        if isinstance(node, ast.Attribute) and node.attr == "inference_mode":
            end = case.source.span(node)[1]
            yield Candidate("no_grad, not inference_mode", (Edit(end - len("inference_mode"), end, "no_grad"),))
