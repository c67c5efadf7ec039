"""Repairs where `.grad` itself is shared: backward and zero_grad write into it (PyTorch docs, "Autograd mechanics"; torch 2.13)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.tape.repair.broken_program import BrokenProgram, Candidate
from autograder.tape.repair.edits import Edit, every, insert, replace
from autograder.tape.repair.inplace_finder import called


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
