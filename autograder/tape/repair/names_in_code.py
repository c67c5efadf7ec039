"""The names that code binds and reads, found without running it."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterable, Iterator

from autograder.tape.repair.edits import FUNCTIONS, Loop


def carried_names(block: Loop | ast.FunctionDef) -> list[str]:
    """Return the names that an iteration or a call reads before it assigns them for the next one, including `self.h`."""
    assigned = set().union(*(paths_in(statement, ast.Store) for statement in block.body))
    bound = paths_in(block.target, ast.Store) if isinstance(block, ast.For | ast.AsyncFor) else set()
    return [path for path in dict.fromkeys(read_unbound(block.body, bound)) if path in assigned]


def read_unbound(body: Iterable[ast.stmt], bound: set[str]) -> Iterator[str]:
    """Yield the names that the statements read before they are certainly bound, and add those that they bind to `bound`."""
    for statement in body:
        if isinstance(statement, ast.If):
            yield from sorted(paths_in(statement.test, ast.Load) - bound)
            branches = [set(bound), set(bound)]
            yield from read_unbound(statement.body, branches[0])
            yield from read_unbound(statement.orelse, branches[1])
            bound |= branches[0] & branches[1]
        elif isinstance(statement, Loop | ast.With | ast.AsyncWith):
            header = [node for node in ast.iter_child_nodes(statement) if not isinstance(node, ast.stmt)]
            for part in header:
                yield from sorted(paths_in(part, ast.Load) - bound)
            bound |= set().union(*(paths_in(part, ast.Store) for part in header))
            yield from read_unbound(statement.body, bound)  # a loop is assumed to run at least once
        else:
            yield from sorted(paths_in(statement, ast.Load) - bound)
            bound |= paths_in(statement, ast.Store)


def paths_in(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    """Return the names and attribute paths in the node that have this context (`ast.Load` or `ast.Store`)."""
    paths = (inner for inner in ast.walk(node) if isinstance(inner, ast.Name | ast.Attribute))
    return {ast.unparse(path) for path in paths if isinstance(path.ctx, context)}


def names_loaded(node: ast.AST) -> set[str]:
    """Return the names that are read."""
    return {node.id for node in ast.walk(node) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def names_bound(node: ast.AST) -> set[str]:
    """Return the names that are assigned."""
    return {node.id for node in ast.walk(node) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def unread_loop_variables(text: str) -> list[str]:
    """Return the loop variables that are assigned in their function or at the top level and not read afterwards.

    A change that adds one assigns the update to a loop variable, and the update reaches no tensor.
    """
    scopes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Module | FUNCTIONS)]
    return [name for scope in scopes for name in unread_in(scope)]


def unread_in(scope: ast.AST) -> list[str]:
    """Return the variables of the scope's loops that a statement assigns and no later statement reads."""
    nodes = list(inside(scope))
    loop_names = set().union(*(names_bound(node.target) for node in nodes if isinstance(node, ast.For)))
    statements = [node for node in nodes if isinstance(node, ast.stmt)]
    unread = []
    for statement in (statement for statement in statements if isinstance(statement, ast.Assign)):
        if bound := {ast.unparse(target) for target in statement.targets} & loop_names:
            below = [other for other in statements if other.lineno > (statement.end_lineno or statement.lineno)]
            unread += sorted(bound - set().union(*map(names_loaded, below)))
    return unread


def inside(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, without those inside nested functions."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, FUNCTIONS):
            yield from inside(node)


def unbound_names(text: str) -> set[str]:
    """Return the names that a source reads and binds neither where it reads them nor at the top level."""
    table = symtable.symtable(text, "candidate", "exec")
    bound = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    read = {symbol.get_name() for symbol in _symbols(table) if symbol.is_global() and symbol.is_referenced()}
    return read - bound - set(dir(builtins))


def _symbols(table: symtable.SymbolTable) -> Iterator[symtable.Symbol]:
    yield from table.get_symbols()
    for child in table.get_children():
        yield from _symbols(child)
