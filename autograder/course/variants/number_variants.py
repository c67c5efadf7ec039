"""Different numbers and lengths in the programs of a lesson, with the same faults and the same outcomes.

Only cells with the author's tag "vary" change, and in them only lists of decimal numbers within `torch.tensor(...)`.
The new list depends only on the seed and the old list, so a program that appears in several cells remains the same in
all of them. Prose is not changed; a cell whose numbers are quoted in prose has no tag. Checks do not need variants,
because they draw new inputs, including their sizes.
"""

from __future__ import annotations

import ast
import itertools
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbformat import NotebookNode

TAG = "vary"
LONGEST = 2  # maximum number of elements by which a list may grow


def redraw_notebook(notebook: NotebookNode, seed: int) -> None:
    """Replace the numbers in the tagged cells of a lesson, source or release."""
    for cell in notebook.cells:
        if cell.cell_type == "code" and TAG in cell.metadata.get("tags", []):
            cell.source = redraw(cell.source, seed)


def redraw(source: str, seed: int, *, may_grow: bool = True) -> str:
    """Return the code with different numbers in its tensors; names, layout and comments are not changed.

    The seed determines the numbers and the lengths; lists may grow only if all lists of the program are rows.
    """
    nodes, code = list(ast.walk(ast.parse(source))), source.encode()
    rows = {node: _decimal_row(node) for node in nodes if isinstance(node, ast.List)}
    makers = (node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.tensor")
    inside = {node for maker in makers for node in ast.walk(maker)}
    starts = [0, *itertools.accumulate(map(len, code.splitlines(keepends=True)))]
    may_grow = may_grow and None not in rows.values()
    for node in sorted(rows.keys() & inside, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        if row := rows[node]:
            begin, end = starts[node.lineno - 1] + node.col_offset, starts[(node.end_lineno or 0) - 1]
            new = repr(_redraw_row(row, seed, may_grow)).encode()
            code = code[:begin] + new + code[end + (node.end_col_offset or 0) :]
    return code.decode()


def _redraw_row(numbers: Sequence[float], seed: int, may_grow: bool) -> list[float]:
    """Return different numbers with the same signs, zeros, equalities and order, and up to `LONGEST` more."""
    rng = random.Random(f"{seed} {list(numbers)}")
    step = 1.0 if all(number.is_integer() for number in numbers) else 0.1
    drawn = {0.0: 0.0}
    for sign in (-1, 1):
        old = sorted({abs(number) for number in numbers if number * sign > 0})
        steps = range(1, max([9, len(old), *(round(number / step) for number in old)]) + 1)
        new = sorted(rng.sample(steps, len(old)))
        drawn |= {sign * before: sign * round(count * step, 1) for before, count in zip(old, new, strict=True)}
    row = [drawn[number] for number in numbers]
    # The growth depends only on the length, so rows of equal length stay equal; a single number stays single.
    gain = random.Random(f"{seed} {len(row)}").randint(0, LONGEST) if may_grow and len(row) > 1 else 0
    return row + [round(rng.randint(1, 9) * step, 1) for _ in range(gain)]


def _decimal_row(node: ast.List) -> list[float] | None:
    """Return the numbers of a list that contains only decimal numbers; None for other lists."""
    try:
        values = ast.literal_eval(node)
    except ValueError:
        return None
    return values if values and all(type(value) is float for value in values) else None
