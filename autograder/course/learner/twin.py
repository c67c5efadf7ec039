"""A twin of an exercise: the same fault with other names or numbers, for a learner who has seen the answer to the first."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from autograder.course.author_cells import exercises_of
from autograder.course.variants.variant import vary

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from autograder.course.variants.declared_changes import DeclaredChanges

SEEDS = range(1, 9)
"""The variants that are tried, in this order."""


def twin_of(exercise: str, lesson: NotebookNode, changes: DeclaredChanges, known: Collection[str] = ()) -> str | None:
    """Returns one cell with a variant of an exercise's program and its check, which counts for the exercise; None where there is none.

    Args:
        lesson: the notebook with the exercise, as it was written.
        changes: what may differ in it.
        known: programs that the learner has had already, beside the one that was written.
    """
    had = {_one(exercise, lesson)[0], *known}
    variants = (_one(exercise, vary(lesson, seed, changes)) for seed in SEEDS)
    return next((f"{stub}\n\n\n{check}" for stub, check in variants if stub not in had), None)


def _one(exercise: str, lesson: NotebookNode) -> tuple[str, str]:
    return next((known.stub, known.check) for known in exercises_of(lesson) if known.id == exercise)
