"""Which names a cell reads, binds and changes, as its text says without being run."""

from __future__ import annotations

import ast
import functools
import symtable
from collections.abc import Iterator
from typing import NamedTuple

from autograder.grade.submission.cell_analysis import global_reads, inner_scopes, names_in_main, scope_of, statements
from autograder.grade.submission.teacher.object_changes import (
    SEARCH_PATH,
    changes_of,
    passed_names,
    run_at_once,
    stored_names,
)


class NameUse(NamedTuple):
    """What one cell does with names of the notebook.

    Attributes:
        reads: needs while it runs, and does not bind itself before.
        late: needed only when a function that it defines is called.
        binds: may bind.
        certain: binds whenever it runs to its end.
        imports: binds to modules, or to what is imported from them.
        defines: binds to functions, classes or modules.
        changes: may change the object without binding the name: what it calls methods of, writes into or passes on.
        writes: those of them that it surely writes into.
        late_changes: those of them that a function of the cell may change when it is called.
        passes: gives to functions that are not known to leave their arguments alone.
        has_star: whether it imports `*`, which may bind anything.
    """

    reads: frozenset[str]
    late: frozenset[str]
    binds: frozenset[str]
    certain: frozenset[str]
    imports: frozenset[str]
    defines: frozenset[str]
    changes: frozenset[str]
    writes: frozenset[str]
    late_changes: frozenset[str]
    passes: frozenset[str]
    has_star: bool

    @property
    def needs(self) -> frozenset[str]:
        """Every name that the cell reads, at once or later."""
        return self.reads | self.late


Packages = tuple[tuple[str, str], ...]


@functools.lru_cache(maxsize=2000)  # a class shares most of its cells
def imported_packages(text: str) -> Packages:
    """Returns the names that a cell binds by imports, each with the package that it comes from."""
    found: dict[str, str] = {}
    for part in ast.walk(ast.Module(list(statements(text)), [])):
        if isinstance(part, ast.Import):
            found |= {
                name: alias.name.partition(".")[0] for name, alias in zip(_imported(part), part.names, strict=True)
            }
        elif isinstance(part, ast.ImportFrom):
            found |= dict.fromkeys(_imported(part), (part.module or "").partition(".")[0])
    return tuple(found.items())


NAMESPACES = {"globals", "locals", "vars", "dir"}


@functools.lru_cache(maxsize=2000)  # a class shares most of its cells
def name_use(text: str, packages: Packages = ()) -> NameUse:
    """Returns what a cell does with names; nothing if it is not Python.

    A package has a state of its own (numpy's seed, pandas' options), which a cell may set under one name and another one may
    use under a second one. It stands among the names as "import numpy".

    Args:
        text: the cell's.
        packages: the names that other cells have imported.
    """
    parts = statements(text)
    tree = ast.Module(list(parts), [])
    known = dict(packages) | dict(imported_packages(text))
    top = scope_of(tree)
    binds = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    binds |= {name for scope in inner_scopes(top) for name in _global_binds(scope)}
    late = global_reads(text)
    imports = {name for name, _ in imported_packages(text)}
    now = changes_of(list(run_at_once(tree)), known)
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    later = {name for function in functions for name in changes_of(list(ast.walk(function)), known).may} & (
        late - set(known)
    )
    return NameUse(
        reads=frozenset(_reads_from_outside(parts, top) | _asked_by_name(tree)),
        late=frozenset((late - binds) | _states_needed(dict(imported_packages(text)))),
        binds=frozenset(binds),
        certain=frozenset(name for part in parts for name in _certain(part)),
        imports=frozenset(imports - {"*"}),
        defines=frozenset(imports | {part.name for part in parts if isinstance(part, (ast.FunctionDef, ast.ClassDef))}),
        changes=now.may | later,
        writes=now.surely,
        late_changes=frozenset(later),
        passes=passed_names(tree, frozenset(known)),
        has_star="*" in imports,
    )


def _states_needed(imported: dict[str, str]) -> set[str]:
    return {f"import {package}" for package in imported.values()} | ({SEARCH_PATH} if imported else set())


def _asked_by_name(tree: ast.Module) -> set[str]:
    """Returns the names in quotes, such as "x" in globals(), if the cell asks for a namespace, and those of `__main__`."""
    nodes = list(ast.walk(tree))
    asks = any(isinstance(node, ast.Call) and not node.args and ast.unparse(node.func) in NAMESPACES for node in nodes)
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return names_in_main(nodes) | ({text for text in texts if text.isidentifier()} if asks else set())


def _global_binds(scope: symtable.SymbolTable) -> set[str]:
    return {s.get_name() for s in scope.get_symbols() if s.is_declared_global() and s.is_assigned()}


def _reads_from_outside(parts: list[ast.stmt], top: symtable.SymbolTable) -> set[str]:
    """Returns the names that are read at the cell's top level before it has bound them."""
    scopes = [top, *inner_scopes(top)]
    outer = {s.get_name() for scope in scopes for s in scope.get_symbols() if scope is top or s.is_global()}
    read, bound = set[str](), set[str]()
    for part in parts:
        read |= (_read_at_once(part) & outer) - bound
        bound |= _certain(part)
    return read


def _read_at_once(part: ast.AST) -> set[str]:
    nodes = list(run_at_once(part))
    names = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store)}
    return names | {
        node.target.id for node in nodes if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    }


def _certain(part: ast.stmt) -> set[str]:
    """Returns the names that a statement surely binds."""
    if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {part.name}
    if isinstance(part, (ast.Import, ast.ImportFrom)):
        return set(_imported(part)) - {"*"}
    targets: list[ast.expr] = []
    if isinstance(part, ast.Assign):
        targets = part.targets
    elif isinstance(part, ast.AugAssign) or (isinstance(part, ast.AnnAssign) and part.value is not None):
        targets = [part.target]
    elif isinstance(part, (ast.With, ast.AsyncWith)):
        inner = {name for statement in part.body for name in _certain(statement)}
        return inner | stored_names([item.optional_vars for item in part.items if item.optional_vars])
    return stored_names(targets)


def _imported(part: ast.Import | ast.ImportFrom) -> Iterator[str]:
    for alias in part.names:
        yield alias.asname or (alias.name.partition(".")[0] if isinstance(part, ast.Import) else alias.name)
