"""The names that code binds, reads and changes, found without running it."""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import re
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nbformat import NotebookNode

from autograder.check.subject.learner_code import normal_form_of, words_of
from autograder.grade.sandbox.shell import Transformers

BUILTINS = frozenset(dir(builtins)) | {"get_ipython", "display", "__name__"}
CHANGING = {"shuffle", "copyto", "put", "place", "putmask", "heapify", "heappush", "heappop", "insort"}
"""Library functions that change their arguments."""
NAMESPACES = {"globals", "locals", "vars", "dir"}


@dataclass(frozen=True)
class CellNames:
    """The names of one cell."""

    reads: frozenset[str]  # read at the top level, before the cell itself binds them
    called: frozenset[str]  # global names that its functions read when they are called
    binds: frozenset[str]  # bound at the top level, or by `global`
    imports: dict[str, str]  # name bound to a module, or to a part of one → the module's own name
    parts: dict[str, tuple[str, str]]  # name bound by `from ... import ...` → the module and the part
    functions: frozenset[str]  # bound by `def`
    classes: frozenset[str]  # bound by `class`
    inner: frozenset[str]  # bound anywhere in the cell, including comprehensions, exception handlers and functions
    # names whose object a statement at the top level may change, by a separate call of one of its methods, or by
    # setting an item or attribute
    changes: frozenset[str]
    # texts that are identifiers, if the cell accesses a namespace by `globals()` or similar functions
    quoted: frozenset[str]

    @property
    def needs(self) -> frozenset[str]:
        """Every name that the cell reads from outside, immediately or later."""
        return (self.reads | self.late | self.quoted) - BUILTINS

    @property
    def late(self) -> frozenset[str]:
        """The names from outside that its functions read when they are called."""
        return self.called - self.binds


@functools.lru_cache(maxsize=2000)
def cell_names(text: str) -> CellNames:
    """Return the names of a cell; empty if it is not Python."""
    parts = statements(text)
    tree = ast.Module(list(parts), [])
    scope = _scope_of(tree)
    inner = list(_inner_scopes(scope))
    # Python 3.11 gives a comprehension its own scope, although it runs with the statement.
    comprehensions = [scope for scope in inner if scope.get_name() in COMPREHENSIONS]
    outer = {symbol.get_name() for symbol in scope.get_symbols()}
    outer |= {symbol.get_name() for scope in comprehensions for symbol in scope.get_symbols() if symbol.is_global()}
    symbols = [symbol for scope in inner for symbol in scope.get_symbols()]
    declared = {symbol.get_name() for symbol in symbols if symbol.is_declared_global() and symbol.is_assigned()}
    binds = frozenset(declared).union(*(bound_names(part) for part in parts))
    functions = [child for child in scope.get_children() if child.get_name() not in COMPREHENSIONS]
    late = [symbol for child in functions for scope in (child, *_inner_scopes(child)) for symbol in scope.get_symbols()]
    imports, from_parts = _imports(tree)
    return CellNames(
        reads=frozenset(_reads(parts, outer)),
        called=frozenset(symbol.get_name() for symbol in late if symbol.is_global() and symbol.is_referenced()),
        binds=binds,
        imports=imports,
        parts=from_parts,
        functions=frozenset(part.name for part in parts if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))),
        classes=frozenset(part.name for part in parts if isinstance(part, ast.ClassDef)),
        inner=frozenset(s.get_name() for s in (*scope.get_symbols(), *symbols) if s.is_assigned() or s.is_parameter()),
        changes=frozenset(
            name for part in parts for node in _executed_immediately(part) for name in changed_names(node)
        ),
        quoted=frozenset(_quoted(tree)),
    )


def _imports(tree: ast.AST) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    modules: dict[str, str] = {}
    parts: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases = [(alias.asname, alias.name, alias.name.partition(".")[0]) for alias in node.names]
            modules |= {name or first: whole if name else first for name, whole, first in aliases}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules |= {alias.asname or alias.name: node.module for alias in node.names if alias.name != "*"}
            parts |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    return modules, parts


def _reads(parts: list[ast.stmt], outer: set[str]) -> set[str]:
    """Return the names that are read at the top level before the cell has certainly bound them."""
    read, bound = set[str](), set[str]()
    for part in parts:
        names = {node for node in _executed_immediately(part) if isinstance(node, ast.Name)}
        read |= {node.id for node in names if not isinstance(node.ctx, ast.Store)} & outer - bound
        bound |= bound_names(part) if not isinstance(part, (ast.If, ast.For, ast.While, ast.Try)) else set()
    return read


def _executed_immediately(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run when the statement runs: decorators and defaults of a function, but not its body.

    The target of an augmented assignment, which is also read, is yielded as a name that is read.
    """
    yield node
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield ast.Name(node.target.id, ast.Load())
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        defaults = [*node.args.defaults, *(default for default in node.args.kw_defaults if default)]
        children: list[ast.AST] = [*node.decorator_list, *defaults]
    elif isinstance(node, ast.Lambda):
        children = [*node.args.defaults, node.body]  # most lambdas are called by the statement itself
    else:
        children = list(ast.iter_child_nodes(node))
    for child in children:
        yield from _executed_immediately(child)


def assigned(node: ast.AST) -> list[ast.expr]:
    """Return the targets of an assignment; [] for another node."""
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        return [node.target]
    return node.targets if isinstance(node, ast.Assign) else []


def changed_names(node: ast.AST) -> Iterator[str]:
    """Yield the names whose object a node may change in place."""
    targets = list(node.targets) if isinstance(node, ast.Delete) else assigned(node)
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        # A plain call, such as `check(x)`, is assumed to change nothing; a method may change its object.
        targets = [node.value.func] if isinstance(node.value.func, ast.Attribute) else []
        if isinstance(node.value.func, ast.Attribute) and node.value.func.attr in CHANGING:
            yield from (argument.id for argument in node.value.args if isinstance(argument, ast.Name))
    for target in targets:
        for part in [target, *(ast.walk(target) if isinstance(target, (ast.Tuple, ast.List)) else ())]:
            if isinstance(part, (ast.Subscript, ast.Attribute)) and (name := root(part)):
                yield name


def root(node: ast.AST) -> str | None:
    """Return the name at the beginning of `name.a[0].b()`; None for another expression."""
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


COMPREHENSIONS = {"listcomp", "setcomp", "dictcomp", "genexpr"}
"""Scopes of Python 3.11 that are not functions to call later."""

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


_ipython = Transformers()


@functools.lru_cache(maxsize=2000)  # the submissions of a class share most of their cells
def transformed(text: str) -> str:
    """Return a cell's text with magics and `!commands` converted to Python as IPython does; unchanged if it is not Python."""
    try:
        return _ipython.transform_cell(text)
    except SyntaxError:  # IPython 9.18 does not catch the error of Python's tokenizer for a wrong indentation
        return text


@functools.lru_cache(maxsize=2000)
def statements(text: str) -> list[ast.stmt]:
    """Return a cell's statements, with magics and `!commands` converted to Python as IPython does; [] if it is not Python.

    The list and its trees are cached and shared, so they must not be changed.
    """
    try:
        return ast.parse(transformed(text)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def bound_names(statement: ast.AST) -> set[str]:
    """Return the names that a statement at the top level of a cell may bind."""
    if isinstance(statement, _Definition):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
    bound = {statement.id} if isinstance(statement, ast.Name) and isinstance(statement.ctx, ast.Store) else set[str]()
    return bound.union(
        *(bound_names(child) for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.Lambda))
    )


def has_code(text: str) -> bool:
    """Return whether a cell's text has a line that is neither blank nor a comment."""
    return any(not line.startswith("#") for line in map(str.strip, text.split("\n")) if line)


DEFINITION = re.compile(r"^(?:async +)?(?:def|class) +(\w+)|^(\w+) *(?::[^=\n]+)?=(?!=)", re.MULTILINE)
UNDEFINED = re.compile(r"(\w+)'? is not defined")
SYNTAX_FILE = re.compile(r" \(.*, line (\d+)\)$")  # a reader does not know IPython's name for a cell


def failed_definition(name: str, cells: Sequence[NotebookNode], test: str) -> tuple[str, str] | None:
    """Return a name and the error that ended the cell which defines it, perhaps not in valid Python; None if none did.

    The cell is before the test with this id, and defines the given name; if it lacked another name, it is the cell to
    which this leads.
    """
    for index, cell in enumerate(cells):
        if cell.metadata.get("nbgrader", {}).get("grade_id") == test:
            break
        errors = [output for output in cell.get("outputs", []) if output.output_type == "error"]
        if errors and (name in cell_names(cell.source).binds or name in sum(DEFINITION.findall(cell.source), ())):
            error = SYNTAX_FILE.sub(r", line \1", f"{errors[0].ename}: {errors[0].evalue}")
            lacked = UNDEFINED.search(error)
            return (lacked and failed_definition(lacked[1], cells[:index], test)) or (name, error)
    return None


def names_bound_before(text: str, line: int) -> set[str]:
    """Return the names that a cell may have bound at the top level when a line runs, without those that the line itself binds."""
    begun = (part for part in statements(text) if part.lineno <= line)
    return set().union(*(bound_names(part) for part in begun if hasattr(part, "body") or (part.end_lineno or 0) < line))


def _scope_of(tree: ast.Module) -> symtable.SymbolTable:
    """Return the symbol table of a cell; an empty one if Python cannot compile the cell."""
    try:
        return symtable.symtable(ast.unparse(tree), "<cell>", "exec")
    except (SyntaxError, ValueError, RecursionError):  # `return` or `await` outside a function
        return symtable.symtable("", "<cell>", "exec")


def _inner_scopes(scope: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    """Yield the functions and classes inside, at every depth."""
    for child in scope.get_children():
        yield child
        yield from _inner_scopes(child)


@functools.lru_cache(maxsize=2000)
def definitions(text: str, without: frozenset[str] = frozenset()) -> str:
    """Return the source of the cell's imports, functions and classes, without decorators, and without the names in `without`."""
    bindings: list[ast.stmt] = []
    for statement in copy.deepcopy(statements(text)):
        if isinstance(statement, _Definition):
            if statement.name in without:
                continue
            statement.decorator_list = []
        if isinstance(statement, (_Definition, ast.Import, ast.ImportFrom)):
            bindings.append(statement)
    return ast.unparse(ast.Module(bindings, []))


class SubmissionText:
    """The text of the cells of a submission that have run."""

    def __init__(self, cells: list[str]) -> None:
        self._cells = cells
        self._statements = [statement for cell in cells for statement in _statement_names(cell)]

    def code(self, name: str) -> str | None:
        """Return the normal form of the name's last definition; None if it is not defined at the top level of a cell."""
        return next((form for cell in reversed(self._cells) if (form := _code(cell, name)) is not None), None)

    def definition(self, name: str) -> str | None:
        """Return the source of the function that a top-level statement last bound to the name; None for other objects."""
        for cell in reversed(self._cells):
            for part in reversed(statements(cell)):
                if name in bound_names(part):
                    if isinstance(part, ast.Assign) and isinstance(part.value, ast.Name):
                        name = part.value.id  # another name of a function that is defined before
                        continue
                    is_function = isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)) and part.name == name
                    return ast.get_source_segment(transformed(cell), part) if is_function else None
        return None

    def words(self, name: str) -> tuple[str, ...]:
        """Return the names and attributes in the statements that bind the name, and in all statements on which these depend.

        If no statement binds it (`exec` or `globals()` may have), return the words of the whole submission.
        """
        if not any(name in binds for binds, _ in self._statements):
            return tuple(sorted(set().union(*(words for _, words in self._statements))))
        seen: set[str] = set()
        names = {name}
        while names - seen:
            seen |= names
            names = set().union(*(words for binds, words in self._statements if binds & seen))
        return tuple(sorted(names))


@functools.lru_cache(maxsize=2000)
def _statement_names(cell: str) -> list[tuple[set[str], set[str]]]:
    """Return the names that each statement at the top level of a cell may bind, and every name and attribute in it."""
    return [(bound_names(part), set(words_of(part))) for part in statements(cell)]


@functools.lru_cache(maxsize=2000)
def _code(cell: str, name: str) -> str | None:
    definitions = [part for part in statements(cell) if isinstance(part, _Definition) and part.name == name]
    return normal_form_of(definitions[-1]) if definitions else None
