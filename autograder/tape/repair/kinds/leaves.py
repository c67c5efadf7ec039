"""Repairs of writes into a leaf, and of a second backward over one graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.tape.repair.case import Candidate, Case
from autograder.tape.repair.edits import Edit, EditableSource, before, every, replace, wrap
from autograder.tape.repair.inplace_finder import InPlace, called

SUMMED = "The gradients of all its numbers are added up."
ADDS_UP = "Both backward calls run over one graph, and their gradients add up."


def under_no_grad(case: Case) -> Iterator[Candidate]:
    """A leaf's new value is set under `torch.no_grad()`, as `nn.init` and the optimizers do."""
    for write in leaf_writes(case):
        if edits := wrap(case.source, write.statement, "with torch.no_grad():"):
            yield Candidate("write under no_grad", edits)


def leaf_writes(case: Case) -> list[InPlace]:
    """Returns the writes that PyTorch refused because they go into a leaf, [] where it refused nothing of the kind."""
    error = case.verdict.error
    refused = case.verdict.outcome == "raises-forward" and error and "leaf" in error.message
    return case.blamed if refused else []


def another_name(case: Case) -> Iterator[Candidate]:
    """The write goes into a copy of the leaf under another name, which the statements below then read."""
    for write in leaf_writes(case):
        if isinstance(write.root, ast.Name):
            name = write.root.id
            new = f"new_{name}"
            edits = (
                before(case.source, write.statement, f"{new} = {name}.clone()"),
                *renamed_below(case.source, write, new),
            )
            yield Candidate("write into a copy of the leaf", edits)


def renamed_below(source: EditableSource, write: InPlace, new: str) -> list[Edit]:
    """Returns the edits that rename the written name from the write on, but where its gradient is read."""
    start = source.span(write.statement)[0]
    scope = source.scope(write.statement)
    names = [node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id == ast.unparse(write.root)]
    later = [node for node in names if source.span(node)[0] >= start and source.scope(node) is scope]
    kept = [node for node in later if getattr(source.parents[node], "attr", "") != "grad"]
    return [Edit(*source.span(node), new) for node in kept]


def retained(case: Case) -> Iterator[Candidate]:
    """The first of two backward calls over one graph keeps what it holds."""
    error = case.verdict.error
    if not error or "second time" not in error.message:
        return
    for call in every(ast.Call, case.source.tree):
        if called(call) in ("backward", "grad") and isinstance(call.func, ast.Attribute):
            yield Candidate("keep the graph", (with_retain(case.source, call),), ADDS_UP)


def summed(case: Case) -> Iterator[Candidate]:
    """`y.backward()` of several numbers becomes `y.sum().backward()`, which is what a gradient of ones means."""
    error = case.verdict.error
    if error and "only for scalar outputs" in error.message:
        for call in every(ast.Call, case.source.tree):
            if called(call) == "backward" and isinstance(call.func, ast.Attribute) and call.lineno == error.line:
                at = case.source.dot(call.func)
                yield Candidate("backward from a sum", (Edit(at, at, ".sum()"),), SUMMED)


def with_retain(source: EditableSource, call: ast.Call) -> Edit:
    """Returns the edit that gives a call of backward `retain_graph=True`."""
    stop = source.span(call)[1]
    for word in call.keywords:
        if word.arg == "retain_graph":
            return replace(source, word.value, "True")
    comma = ", " if call.args or call.keywords else ""
    return Edit(stop - 1, stop - 1, f"{comma}retain_graph=True")
