"""Fixes for modifications of a leaf or its `.grad`, and for a second backward through the same graph."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autograder.locale.messages import Message
from autograder.locale.translations import translatable
from autograder.tape.repair.broken_program import BrokenProgram, Candidate
from autograder.tape.repair.code_reader import InPlaceWrite, called, calls_of, methods_called, owner
from autograder.tape.repair.edits import Edit, EditableSource

SUMMED = Message("change.added_up|The gradients of all its elements are added up.")


def write_under_no_grad(program: BrokenProgram) -> Iterator[Candidate]:
    """Set a leaf's new value under `torch.no_grad()`, as `nn.init` and the optimizers do."""
    for write in leaf_writes(program):
        if edits := program.source.wrap(write.statement, "with torch.no_grad():"):
            yield Candidate("write under no_grad", edits)


def update_average(program: BrokenProgram) -> Iterator[Candidate]:
    """Update a moving average under `torch.no_grad()`, and start it from values without a history."""
    if program.verdict.outcome == "correct":
        return
    clones = [call for call in calls_of(program.source.tree, "clone") if not call.args]
    starts = tuple(program.source.insert(call.func.value, ".detach()", after=True) for call in clones)  # type: ignore[attr-defined]
    for write in program.writes:
        text = program.source.of(write.statement)
        if re.search(r"\.(mul|lerp)_\(|\.copy_\(.*\*", text) and not write.name.endswith(".grad"):
            edits = program.source.wrap(write.statement, "with torch.no_grad():")
            for more in ((), starts) if edits else ():
                changes = Message("change.average|The average is not a part of the graph any more.")
                yield Candidate(translatable("update the average under no_grad"), (*edits, *more), changes)


def leaf_writes(program: BrokenProgram) -> list[InPlaceWrite]:
    """Return the modifications for which PyTorch raised an error because they modify a leaf, or [] for other errors."""
    refused = program.verdict.outcome == "raises-forward" and "leaf" in program.verdict.error_message
    return program.harmful_writes if refused else []


def write_into_copy(program: BrokenProgram) -> Iterator[Candidate]:
    """Modify a copy of the leaf with a new name, and use that name in the statements below."""
    for write in leaf_writes(program):
        if isinstance(write.root, ast.Name):
            name = write.root.id
            new = f"new_{name}"
            copied = program.source.insert_before(write.statement, f"{new} = {name}.clone()")
            renamed, end = rename_below(program.source, write, new), program.source.span(write.statement)[1]
            if any(edit.start >= end for edit in renamed):  # else the copy would not be used
                yield Candidate("write into a copy of the leaf", (copied, *renamed))


def rename_below(source: EditableSource, write: InPlaceWrite, new: str) -> list[Edit]:
    """Return the edits that rename the modified variable from the modification on, except where its gradient is read."""
    start = source.span(write.statement)[0]
    scope = source.scope(write.statement)
    names = [node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id == write.name]
    later = [node for node in names if source.span(node)[0] >= start and source.scope(node) is scope]
    renamed = [node for node in later if getattr(source.parents[node], "attr", "") != "grad"]
    return [Edit(*source.span(node), new) for node in renamed]


# `.grad` may be shared, and backward and zero_grad modify it in place (PyTorch docs, "Autograd mechanics"; torch 2.13).
def clone_gradient(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `kept = w.grad` with `kept = w.grad.clone()`, and assign a copy of the buffer in `w.grad = buffer`."""
    for node in program.source.nodes(ast.Attribute):
        holder = program.source.parents[node]
        if node.attr != "grad" or getattr(holder, "func", None) is node:
            continue
        if isinstance(node.ctx, ast.Load) and not isinstance(holder, ast.Attribute | ast.Subscript | ast.Compare):
            yield Candidate("clone the gradient", (program.source.insert(node, ".clone()", after=True),))
        if isinstance(node.ctx, ast.Store) and isinstance(holder, ast.Assign):
            yield Candidate("clone the gradient", (program.source.append(holder.value, ".clone()"),))


def drop_gradient(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `zero_grad(set_to_none=False)` with `zero_grad()`, and `w.grad.zero_()` with `w.grad = None`."""
    for call in program.source.nodes(ast.Call):
        if called(call) == "zero_grad" and call.keywords:
            end = program.source.span(call.func)[1]
            yield Candidate("set the gradient to None", (Edit(end, program.source.span(call)[1], "()"),))
        zeroed = owner(program.source, call) if called(call) == "zero_" else ""
        if zeroed.endswith(".grad"):
            yield Candidate("set the gradient to None", (program.source.replace(call, f"{zeroed} = None"),))


def retain_graph(program: BrokenProgram) -> Iterator[Candidate]:
    """Add `retain_graph=True` to a backward call if its graph is used again."""
    is_used_again = "second time" in program.verdict.error_message
    for call in calls_of(program.source.tree, "backward", "grad") if is_used_again else ():
        if isinstance(call.func, ast.Attribute):
            retain = program.source.add_argument(call, "retain_graph=True")
            yield Candidate("keep the graph", (retain,), may_silence=True)


def sum_before_backward(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `y.backward()` of a non-scalar with `y.sum().backward()`, which equals backward with a gradient of ones."""
    lines = program.error_lines if "only for scalar outputs" in program.verdict.error_message else []
    for method in methods_called(program.source.tree, "backward"):
        if method.lineno in lines:
            at = program.source.dot(method)
            yield Candidate("backward from a sum", (Edit(at, at, ".sum()"),), SUMMED)


def restore_random_state(program: BrokenProgram) -> Iterator[Candidate]:
    """Set `preserve_rng_state=True`: without it, a checkpointed block draws other random numbers in backward."""
    for keyword in program.source.nodes(ast.keyword):
        if keyword.arg == "preserve_rng_state":
            yield Candidate("restore the random state", (program.source.replace(keyword.value, "True"),))
