"""What can be read off code without running it: which names a cell binds and needs, and what an answer is made of."""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Iterator

from IPython.core.inputtransformer2 import TransformerManager

from autograder.check.subject.learner_code import normal_form_of, words_of

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


_ipython = TransformerManager()


@functools.lru_cache(maxsize=2000)  # a class shares most of its cells
def statements(text: str) -> list[ast.stmt]:
    """Returns a cell's statements, magics and `!commands` turned into Python as IPython does; none where it is no Python.

    The list and its trees are shared: look, and change nothing.
    """
    try:
        return ast.parse(_ipython.transform_cell(text)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def bound(statement: ast.stmt) -> set[str]:
    """Returns the names that a statement at the top of a cell may bind."""
    return set(_bound(statement))


@functools.lru_cache(maxsize=2000)
def needed(text: str) -> set[str]:
    """Returns the names that a cell reads, or may read once its functions are called; its own are among them."""
    return {node.id for part in statements(text) for node in ast.walk(part) if isinstance(node, ast.Name)}


@functools.lru_cache(maxsize=2000)
def definitions(text: str) -> str:
    """Returns the cell's imports, functions and classes, without decorators: what later cells may use of it."""
    kept: list[ast.stmt] = []
    for statement in copy.deepcopy(statements(text)):
        if isinstance(statement, _Definition):
            statement.decorator_list = []
        if isinstance(statement, (_Definition, ast.Import, ast.ImportFrom)):
            kept.append(statement)
    return ast.unparse(ast.Module(kept, []))


class Text:
    """The cells of a submission that have run, as text."""

    def __init__(self, cells: list[str]) -> None:
        self._cells = cells
        self._statements = [statement for cell in cells for statement in statements(cell)]

    def code(self, name: str) -> str | None:
        """Returns the normal form of the name's last definition, None where it is not defined at the top of a cell."""
        return next((form for cell in reversed(self._cells) if (form := _code(cell, name)) is not None), None)

    def words(self, name: str) -> tuple[str, ...]:
        """Returns the names and attributes in what binds the name, and in whatever of the submission that uses in turn.

        Where nothing in the text binds it, all of the submission's words count: it was made by other means.
        """
        seen: set[str] = set()
        wanted, found = {name}, set[str]()
        while wanted - seen:
            seen |= wanted
            parts = [part for part in self._statements if bound(part) & seen]
            found = {word for part in parts for word in words_of(part)}
            wanted = found
        if not any(name in bound(part) for part in self._statements):
            found = {word for part in self._statements for word in words_of(part)}
        return tuple(sorted(found))


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
