"""What code says without being run: the names that a cell binds and uses, and the words of an answer."""

from __future__ import annotations

import ast
import copy
import functools
import symtable
from collections.abc import Iterator
from typing import NamedTuple

from IPython.core.inputtransformer2 import TransformerManager

from autograder.check.subject.learner_code import normal_form_of, words_of

COMPREHENSIONS = {"listcomp", "setcomp", "dictcomp", "genexpr"}
"""The scopes of Python 3.11 that are no functions to call later."""

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


_ipython = TransformerManager()


@functools.lru_cache(maxsize=2000)  # a class shares most of its cells
def transformed(text: str) -> str:
    """Returns a cell's text with magics and `!commands` turned into Python as IPython does; as it is if it is not Python."""
    try:
        return _ipython.transform_cell(text)
    except SyntaxError:  # IPython 9.18 lets that of Python's tokenizer through, for a wrong indentation
        return text


@functools.lru_cache(maxsize=2000)
def statements(text: str) -> list[ast.stmt]:
    """Returns a cell's statements, with magics and `!commands` turned into Python as IPython does; none if it is not Python.

    The list and its trees are cached and shared, so they must not be changed.
    """
    try:
        return ast.parse(transformed(text)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def bound_names(statement: ast.stmt) -> set[str]:
    """Returns the names that a statement at the top level of a cell may bind."""
    return set(_bound(statement))


@functools.lru_cache(maxsize=2000)
def global_reads(text: str) -> frozenset[str]:
    """Returns the names outside of them that a cell's functions read when they are called."""
    outer = scope_of(ast.Module(list(statements(text)), [])).get_children()
    called = [scope for scope in outer if scope.get_name() not in COMPREHENSIONS]
    scopes = [*called, *(inner for scope in called for inner in inner_scopes(scope))]
    return frozenset(
        s.get_name() for scope in scopes for s in scope.get_symbols() if s.is_global() and s.is_referenced()
    )


def scope_of(tree: ast.Module) -> symtable.SymbolTable:
    """Returns the names of a cell and of its functions; none where Python would not compile it."""
    try:
        return symtable.symtable(ast.unparse(tree), "<cell>", "exec")
    except (SyntaxError, ValueError, RecursionError):  # `return` or `await` outside a function
        return symtable.symtable("", "<cell>", "exec")


def inner_scopes(scope: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    """Yields the functions and classes inside, at every depth."""
    for child in scope.get_children():
        yield child
        yield from inner_scopes(child)


@functools.lru_cache(maxsize=2000)
def definitions(text: str, without: frozenset[str] = frozenset()) -> str:
    """Returns the text of the cell's imports, functions and classes, without decorators, and without those of some names."""
    kept: list[ast.stmt] = []
    for statement in copy.deepcopy(statements(text)):
        if isinstance(statement, _Definition):
            if statement.name in without:
                continue
            statement.decorator_list = []
        if isinstance(statement, (_Definition, ast.Import, ast.ImportFrom)):
            kept.append(statement)
    return ast.unparse(ast.Module(kept, []))


class _StatementNames(NamedTuple):
    """The names that a statement at the top level of a cell may bind, and every name and attribute in it."""

    binds: frozenset[str]
    words: frozenset[str]


class SubmissionText:
    """The text of the cells of a submission that have run."""

    def __init__(self, cells: list[str]) -> None:
        self._cells = cells
        self._statements = [statement for cell in cells for statement in _statement_names(cell)]

    def code(self, name: str) -> str | None:
        """Returns the normal form of the name's last definition; None if it is not defined at the top level of a cell."""
        return next((form for cell in reversed(self._cells) if (form := _code(cell, name)) is not None), None)

    def definition(self, name: str) -> str | None:
        """Return the text of the function to which a top-level statement binds the name last; None if it binds something else."""
        for cell in reversed(self._cells):
            for part in reversed(statements(cell)):
                if name in bound_names(part):
                    is_function = isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)) and part.name == name
                    return ast.get_source_segment(transformed(cell), part) if is_function else None
        return None

    def words(self, name: str) -> tuple[str, ...]:
        """Returns the names and attributes in the statements that bind the name, and in all statements that these depend on.

        If no statement binds it (`exec` or `globals()` may have), the words of the whole submission are returned.
        """
        if not any(name in statement.binds for statement in self._statements):
            return tuple(sorted(set().union(*(statement.words for statement in self._statements))))
        seen: set[str] = set()
        found = {name}
        while found - seen:
            seen |= found
            found = set().union(*(part.words for part in self._statements if part.binds & seen))
        return tuple(sorted(found))


@functools.lru_cache(maxsize=2000)
def _statement_names(cell: str) -> tuple[_StatementNames, ...]:
    return tuple(_StatementNames(frozenset(bound_names(part)), frozenset(words_of(part))) for part in statements(cell))


@functools.lru_cache(maxsize=2000)
def _code(cell: str, name: str) -> str | None:
    found = [part for part in statements(cell) if isinstance(part, _Definition) and part.name == name]
    return normal_form_of(found[-1]) if found else None


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, _Definition):
        yield node.name
        return
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield (alias.asname or alias.name).partition(".")[0]
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.Lambda):
            yield from _bound(child)
