"""The check that new numbers keep the outcomes: the programs of a variant are run with the old and the new numbers."""

from __future__ import annotations

import ast
import copy
import functools

from nbformat import NotebookNode

from autograder.course.variants.declared_changes import NOTHING, DeclaredChanges, VariantError, with_choices
from autograder.course.variants.number_variants import TAG, redraw_notebook
from autograder.tape import record
from autograder.tape.recording.verdict_types import Outcome


def check_numbers(notebook: NotebookNode, seed: int, changes: DeclaredChanges = NOTHING) -> None:
    """Run the programs in which a variant replaces numbers, and compare their outcomes.

    Raises:
        VariantError: the outcome of a program depends on its numbers.
    """
    before = with_choices(notebook, changes, seed)
    after = copy.deepcopy(before)
    redraw_notebook(after, seed)
    imports = "\n".join(line for cell in before.cells for line in _imports(cell))
    for cell, original in zip(after.cells, before.cells, strict=True):
        if cell.source != original.source:
            _same_outcomes(cell, original, imports, seed)


def _imports(cell: NotebookNode) -> list[str]:
    lines = cell.source.splitlines() if cell.cell_type == "code" else []
    return [line for line in lines if line.startswith(("import ", "from torch"))]


def _same_outcomes(cell: NotebookNode, original: NotebookNode, imports: str, seed: int) -> None:
    for before, after in zip(_programs(original.source), _programs(cell.source), strict=True):
        expected, got = (_outcome(f"{imports}\n{_text(program)}", program.name) for program in (before, after))
        if expected != got:
            raise VariantError(
                f"cell {cell.id}, seed {seed}: {before.name} is {got} instead of {expected}. "
                f"Remove the tag {TAG!r} from the cell, or use another seed."
            )


@functools.cache
def _outcome(text: str, function: str) -> Outcome:
    return record(text, function=function).verdict.outcome


def _programs(source: str) -> list[ast.FunctionDef]:
    """Return the programs of a cell: the functions without arguments that it defines."""
    return [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and not node.args.args]


def _text(program: ast.FunctionDef) -> str:
    program.decorator_list = []
    return ast.unparse(program)
