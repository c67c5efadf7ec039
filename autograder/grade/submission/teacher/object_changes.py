"""Which objects a cell may change without binding their names, as its text says: calls of methods, writes, arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

# fmt: off
HARMLESS = {
    "print", "display", "len", "type", "help", "repr", "str", "int", "float", "bool", "isinstance", "issubclass", "id",
    "hash", "dir", "vars", "sum", "min", "max", "abs", "round", "sorted", "list", "tuple", "set", "dict", "frozenset",
    "enumerate", "zip", "map", "filter", "range", "any", "all", "callable", "hasattr", "getattr", "format",
}
# fmt: on
# Methods of Python's, NumPy's and pandas' own containers that write into their object.
# fmt: off
WRITERS = {
    "append", "appendleft", "extend", "insert", "remove", "pop", "popleft", "popitem", "clear", "sort", "reverse",
    "update", "add", "discard", "setdefault", "fill", "put", "itemset", "resize", "rename_axis",
}
# fmt: on
# How functions are called that change a module's own state: numpy.random.seed, pandas.set_option, sys.path.append.
SETTERS = (
    "seed",
    "manual_seed",
    "set",
    "use",
    "register",
    "filterwarnings",
    "simplefilter",
    "append",
    "insert",
    "update",
)
SEARCH_PATH = "import from sys.path"
"""Stands among the names for where modules are looked for, which a cell may change, and which each import needs."""
_Late = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Changes(NamedTuple):
    """The names whose objects may be changed, and those of them that are surely written into.

    A package whose own state is set stands among them as "import numpy", and the search path as SEARCH_PATH.
    """

    may: frozenset[str]
    surely: frozenset[str]


def run_at_once(tree: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes that run with a cell: everything but the bodies of functions."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, _Late):
            waiting += [*getattr(node, "decorator_list", []), *node.args.defaults, *filter(None, node.args.kw_defaults)]
        else:
            waiting += ast.iter_child_nodes(node)


def changes_of(nodes: list[ast.AST], packages: dict[str, str]) -> Changes:
    """Returns what these nodes change; `packages` are the names that were imported, with the package of each."""
    imports = frozenset(packages)
    may, surely = set[str](), set[str]()
    for node in nodes:
        surely |= _written(node, imports)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            may |= _root(node.func) - imports
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            may |= _changed_by_bare_call(node.value, imports)
    items = {
        name: _root(node.iter) for node in nodes if isinstance(node, ast.For) for name in stored_names([node.target])
    }
    for found in (may, surely):  # `for row in rows: row.append(1)`
        found |= {root for name in found & items.keys() for root in items[name]}
    states = {f"import {packages[name]}" for name in (may | surely) & imports}
    states |= {SEARCH_PATH for node in nodes if _is_search_path(node, packages)}
    return Changes(frozenset(may | surely | states), frozenset(surely))


def passed_names(tree: ast.AST, imports: frozenset[str]) -> frozenset[str]:
    """Returns the names that are arguments of a call which may write into them."""
    calls = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and not _root(node.func) & (imports | HARMLESS)
    ]
    return frozenset(name for call in calls for value in _arguments(call) for name in _place(value))


def stored_names(targets: list[ast.expr]) -> set[str]:
    """Returns the names that an assignment to these targets binds."""
    names = (node for target in targets for node in ast.walk(target))
    return {node.id for node in names if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _is_search_path(node: ast.AST, packages: dict[str, str]) -> bool:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.attr == "path" and packages.get(node.value.id) == "sys"
    return isinstance(node, ast.Name) and node.id == "path" and packages.get("path") == "sys"


def _written(node: ast.AST, imports: frozenset[str]) -> set[str]:
    if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
        return _place(node)
    if isinstance(node, ast.AugAssign):
        return _place(node.target)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_writer(node, node.func.attr):
        return _root(node.func) - imports
    return set()


def _is_writer(call: ast.Call, method: str) -> bool:
    in_place = any(keyword.arg == "inplace" for keyword in call.keywords)
    return method in WRITERS or in_place or (method.endswith("_") and not method.startswith("_"))


def _changed_by_bare_call(call: ast.Call, imports: frozenset[str]) -> set[str]:
    """Returns what a call may change whose value nobody keeps: its arguments, or the settings of a module."""
    module = _root(call.func) & imports
    changed = set[str]()
    if not _root(call.func) & HARMLESS:
        changed |= {name for value in _arguments(call) for name in _place(value)} - imports
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    plain = isinstance(call.func, ast.Attribute) and all(isinstance(value, ast.Constant) for value in _arguments(call))
    return changed | (module if plain or name.startswith(SETTERS) else set())


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _root(node: ast.AST) -> set[str]:
    """Returns the name at the beginning of `name.attribute[item].method()`; none for anything else."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _place(node: ast.AST) -> set[str]:
    """Returns the name at the beginning of `name.attribute[item]`; none for what a call returns."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()
