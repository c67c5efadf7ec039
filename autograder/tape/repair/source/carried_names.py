"""Find the names that carry a value from one iteration of a loop to the next."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

Loop = ast.For | ast.AsyncFor | ast.While


def carried_names(loop: Loop) -> list[str]:
    """Return the names that an iteration reads before it assigns them and assigns for the next one, including `self.h`."""
    assigned = set().union(*(paths_in(one, ast.Store) for one in loop.body))
    bound = paths_in(loop.target, ast.Store) if isinstance(loop, ast.For | ast.AsyncFor) else set()
    return [path for path in dict.fromkeys(read_unbound(loop.body, bound)) if path in assigned]


def read_unbound(body: Iterable[ast.stmt], bound: set[str]) -> Iterator[str]:
    """Yield the names that the statements read before they are certainly bound.

    Names that they bind are added to `bound`.
    """
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
    """Yield the names that a loop (assumed to run at least once) or a `with` reads before it binds them."""
    header = [one for one in ast.iter_child_nodes(statement) if not isinstance(one, ast.stmt)]
    for one in header:
        yield from sorted(paths_in(one, ast.Load) - bound)
    bound |= set().union(*(paths_in(one, ast.Store) for one in header))
    yield from read_unbound(statement.body, bound)


def paths_in(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    """Return the names and attribute paths in the node that have this context (`ast.Load` or `ast.Store`)."""
    found = (
        one for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute) and isinstance(one.ctx, context)
    )
    return {ast.unparse(one) for one in found}
