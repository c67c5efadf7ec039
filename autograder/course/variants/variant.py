"""The conversion of a notebook to a variant, and the variant's mark in its metadata, with which `reset` and `hint` show it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from autograder.course.stored_notebook import notebooks_here
from autograder.course.variants.declared_changes import NOTHING, DeclaredChanges, rename, with_choices
from autograder.course.variants.number_variants import redraw_notebook

if TYPE_CHECKING:
    from nbformat import NotebookNode

METADATA = "autograder_variant"
LONGEST = 2  # the maximum length of a variable's name that is replaced in sentences; longer names may be English words


class OwnVariant(msgspec.Struct, frozen=True):
    """The variant of a notebook."""

    seed: int  # the seed of the variant
    stubs: dict[str, str]  # exercise → its stub as handed out
    names: dict[str, str] = {}  # for each variable of the lesson, its name in this variant

    def in_words(self, sentence: str) -> str:
        """Return a sentence with this variant's names in place of the lesson's; only names of one or two letters are replaced."""
        short = [re.escape(name) for name in self.names if len(name) <= LONGEST]
        if not short:
            return sentence
        return re.sub(rf"(?<![\w.'’])({'|'.join(short)})(?!\w)", lambda match: self.names[match[0]], sentence)


def seed_in_metadata(notebook: bytes) -> int | None:
    """Return the seed of the variant that a notebook's metadata names; None for a notebook that is not a variant."""
    try:
        variant = _variant_in(msgspec.json.decode(notebook, type=dict[str, Any]))
    except msgspec.MsgspecError:
        return None
    return variant.seed if variant else None


def own_variant(exercise: str) -> OwnVariant | None:
    """Return the variant with this exercise in the kernel's current folder; None if there is no variant."""
    variants = (variant for notebook in notebooks_here() if (variant := _variant_in(notebook)))
    return next((variant for variant in variants if exercise in variant.stubs), None)


def _variant_in(notebook: dict[str, Any]) -> OwnVariant | None:
    try:
        return msgspec.convert(notebook["metadata"][METADATA], OwnVariant)
    except (KeyError, TypeError, msgspec.ValidationError):
        return None


def vary(notebook: NotebookNode, seed: int, changes: DeclaredChanges = NOTHING) -> NotebookNode:
    """Return a copy of an assignment's notebook, source or release, as the student with this seed gets it.

    The result depends only on the notebook, the seed and the declared differences; a variant of the release is the
    release of the variant. This function does not run programs; `check_numbers` and `VariantProof` do.
    """
    varied = with_choices(notebook, changes, seed)
    redraw_notebook(varied, seed)
    rename(varied, changes, seed)
    locked = [cell for cell in varied.cells if "checksum" in cell.metadata.get("nbgrader", {})]
    if locked:  # only a release has checksums; an old checksum would look like a change by a student
        from nbgrader.utils import compute_checksum

        for cell in locked:
            cell.metadata.nbgrader["checksum"] = compute_checksum(cell)
    return varied
