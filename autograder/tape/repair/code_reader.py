"""Read the code of a program: the calls in it, the names that it binds and reads, and the statements that modify memory in place.

The code shows them only in part. Trial runs decide.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from autograder.tape.repair.edits import FUNCTIONS, EditableSource, Loop

# Attributes and methods that return another object with the same memory (torch 2.13, docs "Tensor Views").
ALIASES = {"data", "T", "mT", "H", "real", "imag"}
VIEWS = {
    "detach", "view", "view_as", "reshape", "transpose", "permute", "squeeze", "unsqueeze", "select", "narrow", "flatten",
    "diagonal", "t", "expand", "expand_as", "unfold", "movedim", "swapaxes", "numpy", "alias", "cpu", "contiguous", "as_strided",
    "unflatten", "swapdims", "unbind", "chunk", "split", "untyped_storage", "storage",
}  # fmt: skip
NO_WRITES = {"requires_grad_", "share_memory_"}


@dataclass(frozen=True)
class InPlaceWrite:
    """An in-place modification in the source."""

    statement: ast.stmt  # the statement that contains it
    node: Any  # the call or statement that modifies: ast.Assign, ast.AugAssign or ast.Call
    target: Any  # the modified expression, such as `b[0]`
    root: ast.expr  # the name (or `self.name`) of the tensor that owns the memory, such as `b`
    name: str  # the source of `root`
    path: tuple[str, ...]  # the steps from root to target, such as ("[]",) or ("data",)

    @property
    def is_method(self) -> bool:
        """Whether it is a call such as `x.add_(1)`."""
        return isinstance(self.node, ast.Call)

    @property
    def is_alone(self) -> bool:
        """Whether the statement contains nothing else."""
        return sole_call(self.statement) is self.node

    @property
    def views(self) -> set[str]:
        """The steps of the path that are not in-place methods."""
        return {step for step in self.path if not step.endswith("_")}


def find_writes(source: EditableSource, statement: ast.stmt) -> Iterator[InPlaceWrite]:
    """Yield the modifications in the statement, without those in its nested blocks."""
    for node, target in targets(source, statement):
        root, path = trace(target)
        if root is not None:
            yield InPlaceWrite(statement, node, target, root, source.of(root), path)


def targets(source: EditableSource, statement: ast.stmt) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Yield each modifying node and its target."""
    if isinstance(statement, ast.AugAssign):
        yield statement, statement.target
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Subscript) or getattr(target, "attr", "") == "data":
                yield statement, target
    for call in calls(statement):
        name = called(call)
        if not name.endswith("_") or name.startswith("_") or name.endswith("__") or name in NO_WRITES:
            continue
        if of_module(source, call):
            yield from ((call, argument) for argument in call.args[:1])
        elif isinstance(call.func, ast.Attribute):
            yield call, call.func.value


def trace(target: ast.expr) -> tuple[ast.expr | None, tuple[str, ...]]:
    """Return the innermost name of an expression, or None if it is a computed value, and the steps from it."""
    steps: list[str] = []
    node = target
    while True:
        if isinstance(node, ast.Subscript):
            steps.append("[]")
            node = node.value
        elif isinstance(node, ast.Attribute) and node.attr in ALIASES:
            steps.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and returns_alias(called(node)):
            steps.append(called(node))
            node = node.func.value
        else:
            return (node if is_path(node) else None), tuple(reversed(steps))


def returns_alias(method: str) -> bool:
    """Return whether the method returns a tensor with the memory of its owner: a view, or an in-place method."""
    return method in VIEWS or (method.endswith("_") and not method.startswith("_"))


def is_path(node: ast.expr) -> bool:
    """Return whether the expression is a name, or attributes and items of one, which can be assigned to."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return isinstance(node, ast.Name)


def calls(statement: ast.stmt) -> Iterator[ast.Call]:
    """Yield the calls in the statement, without those in its nested blocks."""
    for part in parts(statement):
        yield from (node for node in ast.walk(part) if isinstance(node, ast.Call))


def parts(statement: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions of a simple statement, or those in the header of a compound statement."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.withitem):
            yield child.context_expr


def sole_call(statement: ast.stmt) -> ast.Call | None:
    """Return the call if a statement is nothing else, so that its value is not used, or None."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value if isinstance(value, ast.Call) else None


def called_in(statement: ast.stmt) -> set[str]:
    """Return the last names of the functions that the statement calls."""
    return {called(call) for call in calls(statement)}


def called(call: ast.Call) -> str:
    """Return the last name of the called function, such as "add_" for `x.add_(1)`."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def calls_of(within: ast.AST, *names: str) -> list[ast.Call]:
    """Return the calls of functions with one of these last names in a subtree, including its root."""
    return [node for node in ast.walk(within) if isinstance(node, ast.Call) and called(node) in names]


def methods_called(within: ast.AST, *names: str) -> list[ast.Attribute]:
    """Return the called methods with one of these names in a subtree, such as `x.add_` of `x.add_(1)`."""
    return [call.func for call in calls_of(within, *names) if isinstance(call.func, ast.Attribute)]


def owner(source: EditableSource, call: ast.Call) -> str:
    """Return the source of the object whose method is called, or "" for another function."""
    return source.of(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def of_module(source: EditableSource, call: ast.Call) -> bool:
    """Return whether the called function belongs to an imported module (`torch.relu_(x)`), not to a tensor (`x.relu_()`)."""
    node: ast.expr = call.func
    if isinstance(node, ast.Name):
        return True
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in source.imported


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
