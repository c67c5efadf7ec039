"""The conversion of a notebook to a variant."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from autograder.course.variants.declared_changes import NOTHING, DeclaredChanges, choose, rename

if TYPE_CHECKING:
    from nbformat import NotebookNode


def vary(notebook: NotebookNode, seed: int, changes: DeclaredChanges = NOTHING) -> NotebookNode:
    """Return a copy of an assignment's notebook, source or release, as the student with this seed gets it.

    The result depends only on the notebook, the seed and the declared differences; a variant of the release is the
    release of the variant. This function does not run programs; `check_numbers` and `VariantProof` do.
    """
    from autograder.course.variants.number_variants import redraw_notebook  # imported here because it loads libcst

    varied = with_choices(notebook, seed, changes)
    redraw_notebook(varied, seed)
    rename(varied, changes, seed)
    locked = [cell for cell in varied.cells if "checksum" in cell.metadata.get("nbgrader", {})]
    if locked:  # only a release has checksums; an old checksum would look like a change by a student
        from nbgrader.utils import compute_checksum

        for cell in locked:
            cell.metadata.nbgrader["checksum"] = compute_checksum(cell)
    return varied


def with_choices(notebook: NotebookNode, seed: int, changes: DeclaredChanges) -> NotebookNode:
    """Return a copy in which only the choices are applied."""
    chosen = copy.deepcopy(notebook)
    choose(chosen, changes, seed)
    return chosen
