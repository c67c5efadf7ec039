"""Fast reading of the course's own notebooks, as plain JSON.

nbformat takes seconds to import on a busy machine, because it loads jsonschema (nbformat 5.10), and a student who has
passed a check would have to wait. The files were validated by `release`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from traitlets.utils.bunch import Bunch


def read_stored(path: Path) -> Any:
    """Return a notebook that `release` wrote, or its source; the text of each cell is one string."""
    notebook = json.loads(path.read_text("utf-8"), object_hook=Bunch)
    for cell in notebook.cells:
        cell.source = "".join(cell.source)
    return notebook


METADATA = "autograder_for_credit"
HINTS = 2  # the number of hints of a marked notebook: the third is closest to the model answer


def mark_for_credit(notebook: Any) -> None:
    """Mark a released notebook, and remove its sentences about the third hint and the model answer."""
    notebook.metadata[METADATA] = True
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and "nbgrader" not in cell.metadata:  # others have checksums
            lines = [line for line in cell.source.split("\n") if "`model_answer(" not in line]
            cell.source = "\n".join(lines).replace("there are three hints", "there are two hints").strip("\n")


def notebooks_here() -> Iterator[dict[str, Any]]:
    """Yield the notebooks in the kernel's current folder as JSON, without damaged ones and files that are being written."""
    for path in sorted(Path.cwd().glob("*.ipynb")):
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            yield msgspec.json.decode(path.read_bytes(), type=dict[str, Any])


def is_for_credit(exercise: str) -> bool:
    """Return whether the kernel's current folder has a marked notebook with this exercise."""
    for notebook in notebooks_here():
        with contextlib.suppress(KeyError, TypeError, AttributeError):  # a damaged notebook
            ids = {cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in notebook["cells"]}
            if notebook["metadata"].get(METADATA) and exercise in ids:
                return True
    return False
