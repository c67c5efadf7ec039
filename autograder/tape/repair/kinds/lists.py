"""Fixes that build a list instead of filling a tensor or a list in place."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.tape.repair.broken_program import BrokenProgram, Candidate
from autograder.tape.repair.code_reader import InPlaceWrite, called
from autograder.tape.repair.edits import EditableSource, Edits

OPERATORS = {"add_": "+", "sub_": "-", "mul_": "*", "div_": "/"}


def rebuild_list(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `for w, g in zip(fast, grads): w -= g` with `fast = [w - g for w, g in zip(fast, grads)]`, also for dictionaries."""
    source = program.source
    for write in program.writes:
        loop = source.parents[write.statement]
        if not isinstance(loop, ast.For) or loop.body != [write.statement] or loop.orelse:
            continue
        value, holder = new_value(source, write), container(loop, write.name)
        if isinstance(write.root, ast.Name) and not write.path and value and holder:
            name, key = holder
            each = f"for {source.of(loop.target)} in {source.of(loop.iter)}"
            built = f"{{{key}: {value} {each}}}" if key else f"[{value} {each}]"
            yield Candidate("build a new container", (source.replace(loop, f"{name} = {built}"),))


def new_value(source: EditableSource, write: InPlaceWrite) -> str:
    """Return the expression of the updated value, or "" if the modification is not a simple update."""
    if isinstance(write.node, ast.AugAssign):
        operator = ast.unparse(ast.BinOp(ast.Name("a"), write.node.op, ast.Name("b"))).split()[1]
        return f"{write.name} {operator} {source.factor(write.node.value)}"
    call = write.node
    if isinstance(call, ast.Call) and called(call) in OPERATORS and isinstance(write.statement, ast.Expr):
        arguments = ", ".join(source.of(argument) for argument in [*call.args, *call.keywords])
        return f"{write.name}.{called(call).removesuffix('_')}({arguments})"
    return ""


def container(loop: ast.For, name: str) -> tuple[str, str] | None:
    """Return the name of the list or dictionary whose values the loop assigns to `name`, and the name of the key ("" for a list)."""
    targets, sources = [loop.target], [loop.iter]
    if isinstance(loop.iter, ast.Call) and called(loop.iter) == "zip" and isinstance(loop.target, ast.Tuple):
        targets, sources = list(loop.target.elts), list(loop.iter.args)
    for target, source_node in zip(targets, sources, strict=False):
        if isinstance(target, ast.Name) and target.id == name and isinstance(source_node, ast.Name):
            return source_node.id, ""
        is_items = isinstance(source_node, ast.Call) and called(source_node) == "items"
        owner = getattr(source_node.func, "value", None) if is_items else None  # type: ignore[attr-defined]
        if isinstance(owner, ast.Name) and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            key, value = map(ast.unparse, target.elts)
            if value == name:
                return owner.id, key
    return None


def stack_rows(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `out = zeros(n, m)` and `out[t] = h` in a loop with `out = []`, `out.append(h)` and `out = torch.stack(out)`."""
    for write in program.writes:
        if isinstance(write.node, ast.Assign) and write.path == ("[]",) and program.source.loops(write.statement):
            for made in program.source.bindings(write.name)[-1:]:
                if isinstance(made.value, ast.Call) and (edits := collect_in_list(program.source, write, made)):
                    yield Candidate("collect in a list and stack", edits)


def collect_in_list(source: EditableSource, write: InPlaceWrite, made: ast.Assign) -> Edits:
    """Return the edits for one buffer, or () if its index is not a single loop variable."""
    loop = source.loops(write.statement)[0]
    index = write.target.slice
    places = index.elts if isinstance(index, ast.Tuple) else [index]
    steps = [at for at, index in enumerate(places) if not isinstance(index, ast.Slice)]
    if not isinstance(loop, ast.For) or len(steps) != 1 or loop.lineno < made.lineno:
        return ()
    name, dimension = write.name, steps[0]
    option = f", dim={dimension}" if dimension else ""
    read = [node for node in source.nodes(ast.Subscript, loop) if isinstance(node.ctx, ast.Load)]
    indices = (node.slice for node in read if ast.unparse(node.value) == ast.unparse(write.root))
    return (
        source.replace(made.value, "[]"),
        source.replace(write.node, f"{name}.append({source.of(write.node.value)})"),
        source.insert_after(loop, f"{name} = torch.stack({name}{option})"),
        # `out[:, t - 1]` inside the loop becomes `out[t - 1]`.
        *(source.replace(at, source.of(at.elts[dimension])) for at in indices if isinstance(at, ast.Tuple)),
    )
