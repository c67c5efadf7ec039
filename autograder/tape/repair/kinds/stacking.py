"""Repairs that collect the steps of a loop in a list and stack them, in place of filling a tensor row by row."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.tape.repair.case import Candidate, Case
from autograder.tape.repair.edits import Edit, Edits, after, every, replace
from autograder.tape.repair.inplace_finder import InPlace
from autograder.tape.repair.kinds.clones import bindings, loops


def stacked(case: Case) -> Iterator[Candidate]:
    """`out = zeros(n, m)` and `out[t] = h` in a loop become `out = []`, `out.append(h)` and `out = torch.stack(out)`."""
    for write in case.writes:
        if isinstance(write.node, ast.Assign) and write.path == ("[]",) and loops(case.source, write.statement):
            for made in bindings(case.source, case.source.of(write.root))[-1:]:
                if isinstance(made.value, ast.Call) and (edits := listed(case, write, made)):
                    yield Candidate("collect in a list and stack", edits)


def listed(case: Case, write: InPlace, made: ast.Assign) -> Edits:
    """Returns the edits of one buffer, () where its index has no single loop variable."""
    loop = loops(case.source, write.statement)[0]
    index = write.target.slice
    places = index.elts if isinstance(index, ast.Tuple) else [index]
    steps = [at for at, one in enumerate(places) if not isinstance(one, ast.Slice)]
    if not isinstance(loop, ast.For) or len(steps) != 1 or loop.lineno < made.lineno:
        return ()
    name, value, dimension = case.source.of(write.root), case.source.of(write.node.value), steps[0]
    option = f", dim={dimension}" if dimension else ""
    return (
        replace(case.source, made.value, "[]"),
        replace(case.source, write.node, f"{name}.append({value})"),
        after(case.source, loop, f"{name} = torch.stack({name}{option})"),
        *reads(case, write, loop, dimension),
    )


def reads(case: Case, write: InPlace, loop: ast.For, dimension: int) -> Iterator[Edit]:
    """Yields the edits that turn `out[:, t - 1]` inside the loop into `out[t - 1]`."""
    for node in every(ast.Subscript, loop):
        same = isinstance(node.ctx, ast.Load) and ast.unparse(node.value) == ast.unparse(write.root)
        if same and isinstance(node.slice, ast.Tuple):
            yield replace(case.source, node.slice, case.source.of(node.slice.elts[dimension]))
