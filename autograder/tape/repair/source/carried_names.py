"""Which names carry something from one round of a loop to the next."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

Loop = ast.For | ast.AsyncFor | ast.While


def carried_names(loop: Loop) -> list[str]:
    """Returns the names that a round reads before it assigns them and assigns for the next round, `self.h` included."""
    assigned = set().union(*(paths_in(one, ast.Store) for one in loop.body))
    bound = paths_in(loop.target, ast.Store) if isinstance(loop, ast.For | ast.AsyncFor) else set()
    return [path for path in dict.fromkeys(read_unbound(loop.body, bound)) if path in assigned]


def read_unbound(body: Iterable[ast.stmt], bound: set[str]) -> Iterator[str]:
    """Yields what the statements read and have not bound for certain by then; what they bind is added to `bound`."""
    for statement in body:
        if isinstance(statement, ast.If):
            yield from sorted(paths_in(statement.test, ast.Load) - bound)
            branches = [set(bound), set(bound)]
            yield from read_unbound(statement.body, branches[0])
            yield from read_unbound(statement.orelse, branches[1])
            bound |= branches[0] & branches[1]
        elif isinstance(statement, Loop | ast.With | ast.AsyncWith):
            yield from header_and_body(statement, bound)
        else:
            yield from sorted(paths_in(statement, ast.Load) - bound)
            bound |= paths_in(statement, ast.Store)


def header_and_body(statement: Loop | ast.With | ast.AsyncWith, bound: set[str]) -> Iterator[str]:
    """Yields what a loop (taken to run at least once) or a `with` reads and has not bound by then."""
    header = [one for one in ast.iter_child_nodes(statement) if not isinstance(one, ast.stmt)]
    for one in header:
        yield from sorted(paths_in(one, ast.Load) - bound)
    bound |= set().union(*(paths_in(one, ast.Store) for one in header))
    yield from read_unbound(statement.body, bound)


def paths_in(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    """Returns the names and attribute paths that stand in the node in a context."""
    found = (
        one for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute) and isinstance(one.ctx, context)
    )
    return {ast.unparse(one) for one in found}
