"""Fixes that collect the rows of a loop in a list and stack them, instead of filling a tensor in place."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.tape.repair.broken_program import BrokenProgram, Candidate
from autograder.tape.repair.kinds.clones import bindings, loops
from autograder.tape.repair.source.edits import Edit, Edits, after, every, replace
from autograder.tape.repair.source.inplace_finder import InPlaceWrite


def stack_rows(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `out = zeros(n, m)` and `out[t] = h` in a loop with `out = []`, `out.append(h)` and `out = torch.stack(out)`."""
    for write in program.writes:
        if isinstance(write.node, ast.Assign) and write.path == ("[]",) and loops(program.source, write.statement):
            for made in bindings(program.source, program.source.of(write.root))[-1:]:
                if isinstance(made.value, ast.Call) and (edits := collect_in_list(program, write, made)):
                    yield Candidate("collect in a list and stack", edits)


def collect_in_list(program: BrokenProgram, write: InPlaceWrite, made: ast.Assign) -> Edits:
    """Return the edits for one buffer, or () if its index is not a single loop variable."""
    loop = loops(program.source, write.statement)[0]
    index = write.target.slice
    places = index.elts if isinstance(index, ast.Tuple) else [index]
    steps = [at for at, one in enumerate(places) if not isinstance(one, ast.Slice)]
    if not isinstance(loop, ast.For) or len(steps) != 1 or loop.lineno < made.lineno:
        return ()
    name, value, dimension = program.source.of(write.root), program.source.of(write.node.value), steps[0]
    option = f", dim={dimension}" if dimension else ""
    return (
        replace(program.source, made.value, "[]"),
        replace(program.source, write.node, f"{name}.append({value})"),
        after(program.source, loop, f"{name} = torch.stack({name}{option})"),
        *index_by_step(program, write, loop, dimension),
    )


def index_by_step(program: BrokenProgram, write: InPlaceWrite, loop: ast.For, dimension: int) -> Iterator[Edit]:
    """Yield the edits that turn `out[:, t - 1]` inside the loop into `out[t - 1]`."""
    for node in every(ast.Subscript, loop):
        same = isinstance(node.ctx, ast.Load) and ast.unparse(node.value) == ast.unparse(write.root)
        if same and isinstance(node.slice, ast.Tuple):
            yield replace(program.source, node.slice, program.source.of(node.slice.elts[dimension]))
