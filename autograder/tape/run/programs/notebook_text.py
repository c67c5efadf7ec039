"""The code of a Jupyter notebook as one text, as if its cells were run from the top."""

from __future__ import annotations

import json
from typing import Any

from autograder.locale.translations import in_english
from autograder.tape.run.programs.cell_text import python_of_cell
from autograder.tape.run.programs.source_text import ProgramError

HEADER = "# In ["  # start of the line above each cell's code; the cell's number and "]" follow


def notebook_text(content: str, file: str, cell: str | None = None) -> str:
    """Return the text of the code cells up to and including `cell`, each below a comment with its number.

    `python_of_cell` replaces magics and `!commands`.

    Args:
        content: the notebook, as JSON (nbformat 4).
        file: name of the notebook, for messages.
        cell: 1-based number of a code cell, or its id; None for all cells.

    Raises:
        ProgramError: if the content is not a notebook, or has no such cell.
    """
    cells = _code_cells(content, file)
    last = len(cells) if cell is None else _number(cells, cell, file)
    parts = [f"{HEADER}{number}]\n{python_of_cell(source_of(one))}" for number, one in enumerate(cells[:last], 1)]
    return "\n\n".join(parts) + "\n"


def _code_cells(content: str, file: str) -> list[dict[str, Any]]:
    try:
        cells = json.loads(content)["cells"]
        return [cell for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError):
        raise ProgramError(
            in_english("{file} is not a notebook of format 4. Open and save it in JupyterLab.", file=file)
        ) from None


def _number(cells: list[dict[str, Any]], cell: str, file: str) -> int:
    if cell.isdigit() and 1 <= int(cell) <= len(cells):
        return int(cell)
    numbers = [number for number, one in enumerate(cells, 1) if one.get("id") == cell]
    if numbers:
        return numbers[0]
    raise ProgramError(
        in_english(
            "{file} has no code cell {cell}; it has {count}. Give a number from the top, or a cell's id.",
            file=file,
            cell=cell,
            count=len(cells),
        )
    )


def source_of(cell: dict[str, Any]) -> str:
    """Return a cell's source as a string."""
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)
