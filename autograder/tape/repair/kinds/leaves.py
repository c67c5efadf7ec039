"""Repairs of writes into a leaf or its `.grad`, and of a second backward over one graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.locale.translations import in_english
from autograder.tape.repair.broken_program import BrokenProgram, Candidate
from autograder.tape.repair.source.edits import Edit, EditableSource, before, every, insert, replace, wrap
from autograder.tape.repair.source.inplace_finder import InPlaceWrite, called

SUMMED = in_english("The gradients of all its elements are added up.")


def write_under_no_grad(program: BrokenProgram) -> Iterator[Candidate]:
    """A leaf's new value is set under `torch.no_grad()`, as `nn.init` and the optimizers do."""
    for write in leaf_writes(program):
        if edits := wrap(program.source, write.statement, "with torch.no_grad():"):
            yield Candidate("write under no_grad", edits)


def leaf_writes(program: BrokenProgram) -> list[InPlaceWrite]:
    """Returns the writes that PyTorch refused because they go into a leaf, [] where it raised for another reason."""
    error = program.verdict.error
    refused = program.verdict.outcome == "raises-forward" and error and "leaf" in error.message
    return program.blamed if refused else []


def write_into_copy(program: BrokenProgram) -> Iterator[Candidate]:
    """The write goes into a copy of the leaf under another name, which the statements below read instead."""
    for write in leaf_writes(program):
        if isinstance(write.root, ast.Name):
            name = write.root.id
            new = f"new_{name}"
            edits = (
                before(program.source, write.statement, f"{new} = {name}.clone()"),
                *rename_below(program.source, write, new),
            )
            yield Candidate("write into a copy of the leaf", edits)


def rename_below(source: EditableSource, write: InPlaceWrite, new: str) -> list[Edit]:
    """Returns the edits that rename the written name from the write on, except where its gradient is read."""
    start = source.span(write.statement)[0]
    scope = source.scope(write.statement)
    names = [node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id == ast.unparse(write.root)]
    later = [node for node in names if source.span(node)[0] >= start and source.scope(node) is scope]
    kept = [node for node in later if getattr(source.parents[node], "attr", "") != "grad"]
    return [Edit(*source.span(node), new) for node in kept]


# `.grad` may be shared: backward and zero_grad write into it (PyTorch docs, "Autograd mechanics"; torch 2.13).
def clone_gradient(program: BrokenProgram) -> Iterator[Candidate]:
    """`kept = w.grad` becomes `kept = w.grad.clone()`, and `w.grad = buffer` gets a copy of the buffer."""
    for node in every(ast.Attribute, program.source.tree):
        holder = program.source.parents[node]
        if node.attr != "grad":
            continue
        if isinstance(node.ctx, ast.Load) and not isinstance(holder, ast.Attribute | ast.Subscript | ast.Compare):
            yield Candidate("clone the gradient", (insert(program.source, node, ".clone()", after=True),))
        if isinstance(node.ctx, ast.Store) and isinstance(holder, ast.Assign):
            text = f"{program.source.operand(holder.value)}.clone()"
            yield Candidate("clone the gradient", (replace(program.source, holder.value, text),))


def drop_gradient(program: BrokenProgram) -> Iterator[Candidate]:
    """`zero_grad(set_to_none=False)` becomes `zero_grad()`, and `w.grad.zero_()` becomes `w.grad = None`."""
    for call in every(ast.Call, program.source.tree):
        if called(call) == "zero_grad" and call.keywords:
            end = program.source.span(call.func)[1]
            yield Candidate("set the gradient to None", (Edit(end, program.source.span(call)[1], "()"),))
        owner = call.func.value if called(call) == "zero_" and isinstance(call.func, ast.Attribute) else None
        if isinstance(owner, ast.Attribute) and owner.attr == "grad":
            yield Candidate(
                "set the gradient to None", (replace(program.source, call, f"{program.source.of(owner)} = None"),)
            )


def retain_graph(program: BrokenProgram) -> Iterator[Candidate]:
    """A backward call over a graph that is used again gets `retain_graph=True`."""
    error = program.verdict.error
    if not error or "second time" not in error.message:
        return
    for call in every(ast.Call, program.source.tree):
        if called(call) in ("backward", "grad") and isinstance(call.func, ast.Attribute):
            yield Candidate("keep the graph", (with_retain(program.source, call),), may_silence=True)


def sum_before_backward(program: BrokenProgram) -> Iterator[Candidate]:
    """`y.backward()` of several numbers becomes `y.sum().backward()`, which is what a gradient of ones means."""
    error = program.verdict.error
    if error and "only for scalar outputs" in error.message:
        for call in every(ast.Call, program.source.tree):
            if (
                called(call) == "backward"
                and isinstance(call.func, ast.Attribute)
                and call.lineno in program.error_lines
            ):
                at = program.source.dot(call.func)
                yield Candidate("backward from a sum", (Edit(at, at, ".sum()"),), SUMMED)


def with_retain(source: EditableSource, call: ast.Call) -> Edit:
    """Returns the edit that gives a call of backward `retain_graph=True`."""
    stop = source.span(call)[1]
    for word in call.keywords:
        if word.arg == "retain_graph":
            return replace(source, word.value, "True")
    comma = ", " if call.args or call.keywords else ""
    return Edit(stop - 1, stop - 1, f"{comma}retain_graph=True")
