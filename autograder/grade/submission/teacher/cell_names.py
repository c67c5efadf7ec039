"""The names that a cell reads, binds and changes, as its text says without being run."""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Iterator
from dataclasses import dataclass

from autograder.grade.submission.cell_analysis import (
    COMPREHENSIONS,
    bound_names,
    global_reads,
    inner_scopes,
    scope_of,
    statements,
)

BUILTINS = frozenset(dir(builtins)) | {"get_ipython", "display", "__name__"}
CHANGING = {"shuffle", "copyto", "put", "place", "putmask", "heapify", "heappush", "heappop", "insort"}
"""Functions of libraries that change their arguments."""
NAMESPACES = {"globals", "locals", "vars", "dir"}


@dataclass(frozen=True)
class CellNames:
    """The names of one cell.

    Attributes:
        reads: at the top level, before the cell binds them itself.
        late: in its functions, when they are called.
        binds: at the top level, or by `global`.
        imports: bound to a module, or to a part of one: the module's own name for each.
        parts: bound by `from ... import ...`: the module and the part for each.
        functions: bound by `def`.
        classes: bound by `class`.
        inner: bound anywhere in the cell: in comprehensions, handlers of exceptions and functions, too.
        changes: whose object a statement at the top level may change: one of its methods is called by itself, or an item or
            attribute of it is set.
        quoted: texts that are identifiers, if the cell asks for a namespace by `globals()` or the like.
    """

    reads: frozenset[str]
    late: frozenset[str]
    binds: frozenset[str]
    imports: dict[str, str]
    parts: dict[str, tuple[str, str]]
    functions: frozenset[str]
    classes: frozenset[str]
    inner: frozenset[str]
    changes: frozenset[str]
    quoted: frozenset[str]

    @property
    def needs(self) -> frozenset[str]:
        """Every name that the cell reads from outside, at once or later."""
        return (self.reads | self.late | self.quoted) - BUILTINS


@functools.lru_cache(maxsize=2000)
def cell_names(text: str) -> CellNames:
    """Return the names of a cell; none if it is not Python."""
    parts = statements(text)
    tree = ast.Module(list(parts), [])
    scope = scope_of(tree)
    # Python 3.11 gives a comprehension a scope of its own, though it runs with the statement.
    comprehensions = [inner for inner in inner_scopes(scope) if inner.get_name() in COMPREHENSIONS]
    outer = {symbol.get_name() for symbol in scope.get_symbols()}
    outer |= {symbol.get_name() for inner in comprehensions for symbol in inner.get_symbols() if symbol.is_global()}
    declared = {
        symbol.get_name()
        for inner in inner_scopes(scope)
        for symbol in inner.get_symbols()
        if symbol.is_declared_global() and symbol.is_assigned()
    }
    binds = frozenset(declared).union(*(bound_names(part) for part in parts))
    imports, from_parts = _imports(tree)
    return CellNames(
        reads=frozenset(_reads(parts, outer)),
        late=global_reads(text) - binds,
        binds=binds,
        imports=imports,
        parts=from_parts,
        functions=frozenset(part.name for part in parts if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))),
        classes=frozenset(part.name for part in parts if isinstance(part, ast.ClassDef)),
        inner=frozenset(_bound_anywhere(tree)),
        changes=frozenset(name for part in _at_once(parts) for name in changed_names(part)),
        quoted=frozenset(_quoted(tree)),
    )


def _bound_anywhere(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, (ast.ExceptHandler, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name or ""
        elif isinstance(node, ast.arg):
            yield node.arg


def _imports(tree: ast.AST) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    modules: dict[str, str] = {}
    parts: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {
                alias.asname or alias.name.partition(".")[0]: alias.name
                if alias.asname
                else alias.name.partition(".")[0]
                for alias in node.names
            }
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules |= {alias.asname or alias.name: node.module for alias in node.names if alias.name != "*"}
            parts |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    return modules, parts


def _reads(parts: list[ast.stmt], outer: set[str]) -> set[str]:
    """Return the names that are read at the top level before the cell has bound them for certain."""
    read, bound = set[str](), set[str]()
    for part in parts:
        names = {node for node in _run_at_once(part) if isinstance(node, ast.Name)}
        read |= {node.id for node in names if not isinstance(node.ctx, ast.Store)} & outer - bound
        bound |= bound_names(part) if not isinstance(part, (ast.If, ast.For, ast.While, ast.Try)) else set()
    return read


def _run_at_once(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run when the statement runs: not the body of a function, but its decorators and defaults.

    The target of an augmented assignment, which is read as well, is yielded as a name that is read.
    """
    yield node
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield ast.Name(node.target.id, ast.Load())
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        defaults = [*node.args.defaults, *(default for default in node.args.kw_defaults if default)]
        children: list[ast.AST] = [*node.decorator_list, *defaults]
    elif isinstance(node, ast.Lambda):
        children = [*node.args.defaults, node.body]  # most are called by the statement itself
    else:
        children = list(ast.iter_child_nodes(node))
    for child in children:
        yield from _run_at_once(child)


def _at_once(parts: list[ast.stmt]) -> Iterator[ast.AST]:
    for part in parts:
        yield from _run_at_once(part)


def changed_names(node: ast.AST) -> Iterator[str]:
    """Yield the names whose object a node may change in place."""
    targets: list[ast.expr] = []
    if isinstance(node, (ast.Assign, ast.Delete)):
        targets = list(node.targets)
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        targets = [node.target]
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        # Of a plain call, such as `check(x)`, nothing is assumed; a method may change its object.
        targets = [node.value.func] if isinstance(node.value.func, ast.Attribute) else []
        if isinstance(node.value.func, ast.Attribute) and node.value.func.attr in CHANGING:
            yield from (argument.id for argument in node.value.args if isinstance(argument, ast.Name))
    for target in targets:
        for part in [target, *(ast.walk(target) if isinstance(target, (ast.Tuple, ast.List)) else ())]:
            if isinstance(part, (ast.Subscript, ast.Attribute)) and (name := root(part)):
                yield name


def root(node: ast.AST) -> str | None:
    """Return the name at the beginning of `name.a[0].b()`; None if there is another expression."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _quoted(tree: ast.AST) -> set[str]:
    nodes = list(ast.walk(tree))
    asks = any(
        isinstance(node, ast.Call) and not node.args and isinstance(node.func, ast.Name) and node.func.id in NAMESPACES
        for node in nodes
    )
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text for text in texts if text.isidentifier()} if asks else set()
