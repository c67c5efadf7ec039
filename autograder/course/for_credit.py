"""Notebooks that count for a grade: a mark in their metadata, which `hint` and `model_answer` obey.

A student can remove the mark, or use another copy of the course, so it deters and does not prevent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

METADATA = "autograder_for_credit"
HINTS = 2
"""The number of hints of a marked notebook: the third is closest to the model answer."""


def mark_for_credit(notebook: Any) -> None:
    """Mark a released notebook, and remove its sentences about the third hint and the model answer."""
    notebook.metadata[METADATA] = True
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and "nbgrader" not in cell.metadata:  # others have checksums
            lines = [line for line in cell.source.split("\n") if "`model_answer(" not in line]
            cell.source = "\n".join(lines).replace("there are three hints", "there are two hints").strip("\n")


def is_for_credit(exercise: str, folder: Path | None = None) -> bool:
    """Return whether a folder, by default the kernel's current folder, has a marked notebook with this exercise."""
    for path in sorted((folder or Path.cwd()).glob("*.ipynb")):
        try:
            notebook = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
            ids = {cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in notebook["cells"]}
            if notebook["metadata"].get(METADATA) and exercise in ids:
                return True
        except (OSError, KeyError, TypeError, AttributeError, msgspec.MsgspecError):
            continue  # a damaged notebook, or a file that is being written
    return False
