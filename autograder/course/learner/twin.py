"""A variant of an exercise with the same fault, for a student who has seen the model answer."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from autograder.course.author_cells import exercises_of
from autograder.course.variants.variant import vary

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from autograder.course.variants.declared_changes import DeclaredChanges

SEEDS = range(1, 9)
"""The seeds of the variants to try, in this order."""


def twin_of(exercise: str, lesson: NotebookNode, changes: DeclaredChanges, known: Collection[str] = ()) -> str | None:
    """Return the source of a cell with a variant of an exercise's program and its check, or None if all variants are known.

    The check counts for the original exercise.

    Args:
        exercise: the exercise's id.
        lesson: the notebook with the exercise, as the author wrote it.
        changes: the declared differences between variants.
        known: programs that the student has already had, in addition to the original one.
    """
    had = {_one(exercise, lesson)[0], *known}
    variants = (_one(exercise, vary(lesson, seed, changes)) for seed in SEEDS)
    return next((f"{stub}\n\n\n{check}" for stub, check in variants if stub not in had), None)


def _one(exercise: str, lesson: NotebookNode) -> tuple[str, str]:
    return next((known.stub, known.check) for known in exercises_of(lesson) if known.id == exercise)
