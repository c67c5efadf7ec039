"""One variant of a notebook."""

from __future__ import annotations

import copy

from nbformat import NotebookNode
from nbgrader.utils import compute_checksum

from autograder.course.variants.declared_changes import NOTHING, DeclaredChanges, choose, rename
from autograder.course.variants.number_variants import redraw_notebook


def vary(notebook: NotebookNode, seed: int, changes: DeclaredChanges = NOTHING) -> NotebookNode:
    """Returns a copy of an assignment's notebook, source or release, as the student with this seed gets it.

    It depends on nothing but the notebook, the seed and what is declared; a variant of the release is the release of the
    variant. No program is run: `check_numbers` and `VariantProof` do that.
    """
    varied = with_choices(notebook, seed, changes)
    redraw_notebook(varied, seed)
    rename(varied, changes, seed)
    for cell in varied.cells:
        if "checksum" in cell.metadata.get(
            "nbgrader", {}
        ):  # otherwise nbgrader believes that a learner changed the cell
            cell.metadata.nbgrader["checksum"] = compute_checksum(cell)
    return varied


def with_choices(notebook: NotebookNode, seed: int, changes: DeclaredChanges) -> NotebookNode:
    """Returns a copy in which only the choices are made."""
    chosen = copy.deepcopy(notebook)
    choose(chosen, changes, seed)
    return chosen
