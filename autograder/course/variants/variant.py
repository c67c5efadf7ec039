"""The conversion of a notebook to a variant, and the variant's mark in its metadata, with which `reset` and `hint` show it."""

from __future__ import annotations

import ast
import itertools
import random
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from autograder.course.stored_notebook import notebooks_here
from autograder.course.variants.declared_changes import NOTHING, DeclaredChanges, rename, with_choices

if TYPE_CHECKING:
    from nbformat import NotebookNode

METADATA = "autograder_variant"
TAG = "vary"  # the author's tag of a cell whose numbers vary
GROWTH = 2  # maximum number of elements by which a list may grow
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


def redraw_notebook(notebook: NotebookNode, seed: int) -> None:
    """Replace the numbers in the tagged cells of a lesson, source or release; the faults and the outcomes stay the same.

    Only lists of decimal numbers within `torch.tensor(...)` change. The new list depends only on the seed and the old
    list, so a program that appears in several cells remains the same in all of them. Prose is not changed; a cell whose
    numbers are quoted in prose has no tag. Checks do not need variants, because they draw new inputs, including their
    sizes.
    """
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
    """Return different numbers with the same signs, zeros, equalities and order, and up to `GROWTH` more."""
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
    gain = random.Random(f"{seed} {len(row)}").randint(0, GROWTH) if may_grow and len(row) > 1 else 0
    return row + [round(rng.randint(1, 9) * step, 1) for _ in range(gain)]


def _decimal_row(node: ast.List) -> list[float] | None:
    """Return the numbers of a list that contains only decimal numbers; None for other lists."""
    try:
        values = ast.literal_eval(node)
    except ValueError:
        return None
    return values if values and all(type(value) is float for value in values) else None
