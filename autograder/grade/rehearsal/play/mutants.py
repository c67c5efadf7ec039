"""Small edits of a right answer, each of the kind that a learner's slip makes: a mutant that a good test refuses.

The edits are made on the syntax tree, one at a time, and named by what they do. Whether a mutant is wrong is not known
here: some edits change nothing that matters, and `behaviour.py` tells most of these.
"""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Iterator
from typing import NamedTuple

from autograder.grade.rehearsal.play.source_edits import Change, edits
from autograder.grade.rehearsal.play.tensor_edits import tensor_edits


class Mutant(NamedTuple):
    """One edited answer: what the edit does, and the whole text."""

    edit: str
    source: str


def mutants(source: str, *, tensors: bool = True) -> list[Mutant]:
    """Returns every mutant of an answer in a fixed order; none compiles to what the answer or another mutant compiles to.

    Args:
        source: the answer, in plain Python.
        tensors: whether to make the edits that change what autograd sees.

    Raises:
        SyntaxError: the answer is not plain Python.
    """
    tree = ast.parse(source)
    seen = {_compiled(ast.unparse(tree)), None}
    found = []
    for position, node in enumerate(ast.walk(tree)):
        for edit, change in _edits(node, tensors):
            mutated = copy.deepcopy(tree)
            target = next(other for index, other in enumerate(ast.walk(mutated)) if index == position)
            text = _applied(mutated, target, change)
            if (compiled := _compiled(text)) not in seen:
                seen.add(compiled)
                found.append(Mutant(f"{edit}: {_first_line(node)}", text))
    return found


def _edits(node: ast.AST, tensors: bool) -> Iterator[tuple[str, Change]]:
    yield from edits(node)
    if tensors:
        yield from tensor_edits(node)


def _first_line(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0][:60]


def _applied(tree: ast.Module, target: ast.AST, change: Change) -> str:
    """Returns the text with the one node changed."""

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST | list:
            return change(node) if node is target else self.generic_visit(node)

    Replace().generic_visit(tree)
    for node in ast.walk(tree):
        if getattr(node, "body", None) == []:
            node.body = [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(ast.fix_missing_locations(tree))


def _compiled(text: str) -> object:
    """Returns what Python makes of a text, without names of files and lines; None if it does not compile."""
    try:
        return comparable(compile(text, "", "exec", dont_inherit=True))
    except (SyntaxError, ValueError):
        return None


def comparable(code: types.CodeType) -> tuple:
    """Returns what a piece of compiled code does, without where it stands."""
    # 1 == True == 1.0, so constants are compared with their types.
    constants = tuple(
        comparable(value) if isinstance(value, types.CodeType) else (type(value), repr(value))
        for value in code.co_consts
    )
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars
