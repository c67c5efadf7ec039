"""One variant of a notebook."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from autograder.course.variants.declared_changes import NOTHING, DeclaredChanges, choose, rename

if TYPE_CHECKING:
    from nbformat import NotebookNode


def vary(notebook: NotebookNode, seed: int, changes: DeclaredChanges = NOTHING) -> NotebookNode:
    """Returns a copy of an assignment's notebook, source or release, as the student with this seed gets it.

    It depends on nothing but the notebook, the seed and what is declared; a variant of the release is the release of the
    variant. No program is run: `check_numbers` and `VariantProof` do that.
    """
    from autograder.course.variants.number_variants import redraw_notebook  # loads libcst

    varied = with_choices(notebook, seed, changes)
    redraw_notebook(varied, seed)
    rename(varied, changes, seed)
    locked = [cell for cell in varied.cells if "checksum" in cell.metadata.get("nbgrader", {})]
    if locked:  # only a release has checksums; without new ones nbgrader believes that a student changed the cells
        from nbgrader.utils import compute_checksum

        for cell in locked:
            cell.metadata.nbgrader["checksum"] = compute_checksum(cell)
    return varied


def with_choices(notebook: NotebookNode, seed: int, changes: DeclaredChanges) -> NotebookNode:
    """Returns a copy in which only the choices are made."""
    chosen = copy.deepcopy(notebook)
    choose(chosen, changes, seed)
    return chosen
