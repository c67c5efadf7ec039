"""Functions to call in a lesson: a hint, the original exercise, and the model answer after the student's own has passed."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from IPython.core.getipython import get_ipython

from autograder.course.author_cells import exercises_of
from autograder.course.catalogue import Lesson, lessons
from autograder.course.learner.learner_progress import store, wrong_answers
from autograder.course.paths import NOTEBOOKS, SOLUTIONS
from autograder.course.stored_notebook import HINTS, is_for_credit, read_stored
from autograder.course.variants.declared_changes import DeclaredChanges, read_changes
from autograder.course.variants.variant import own_variant, vary
from autograder.locale.translations import join_sentences, translated

if TYPE_CHECKING:
    from nbformat import NotebookNode

SEEDS = range(1, 9)  # the seeds of the variants to try, in this order


def another_variant(
    exercise: str, lesson: NotebookNode, changes: DeclaredChanges, known: Collection[str] = ()
) -> str | None:
    """Return the source of a cell with a variant of an exercise's program and its check, or None if all variants are known.

    The check counts for the original exercise. The lesson is as the author wrote it; `known` are programs that the
    student has already had, in addition to the original one.
    """
    had = {_stub_and_check(exercise, lesson)[0], *known}
    variants = (_stub_and_check(exercise, vary(lesson, seed, changes)) for seed in SEEDS)
    return next((f"{stub}\n\n\n{check}" for stub, check in variants if stub not in had), None)


def _stub_and_check(exercise: str, lesson: NotebookNode) -> tuple[str, str]:
    return next((each.stub, each.check) for each in exercises_of(lesson) if each.id == exercise)


_hints_used: Counter[str] = Counter()
TRIES = 3
"""The number of hints and of wrong answers after which the model answer is available, so that students do not remain stuck."""


def hint(exercise: str = "") -> None:
    """Print the next of the exercise's three hints; after the last one, start again.

    In a notebook that counts for a grade, the third hint is left out.

    Args:
        exercise: the exercise's id, as in its check cell.
    """
    lesson = _lesson_of(exercise)
    if lesson is None:
        return
    count = HINTS if is_for_credit(exercise) else TRIES
    hints = next(each.hints for each in lesson.exercises if each.id == exercise)[:count]
    variant = own_variant(exercise)
    number = _hints_used[exercise] % len(hints)
    _hints_used[exercise] += 1
    print(
        translated(
            "Hint {number} of {count} ({used} used, all free): {hint}",
            number=number + 1,
            count=len(hints),
            used=_hints_used[exercise],
            hint=variant.in_words(hints[number]) if variant else hints[number],
        )
    )


def reset(exercise: str = "") -> None:
    """Put the original exercise into a new cell below; the cell with your answer is kept.

    Args:
        exercise: the exercise's id, as in its check cell.
    """
    lesson = _lesson_of(exercise)
    shell = get_ipython()
    if lesson is None or shell is None:
        return
    variant = own_variant(exercise)
    original = {each.id: each.stub for each in exercises_of(read_stored(notebook_of(NOTEBOOKS, lesson)))}
    shell.set_next_input((variant.stubs if variant else original)[exercise])
    print(
        translated(
            "The original exercise is in the cell below. Your own cell is kept; copy your answer into it to hand it in."
        )
    )


def model_answer(exercise: str = "") -> None:
    """Print the model answer with its explanation, if the sources are available.

    It is available when the exercise has passed, or after three hints and three wrong answers. In the second case it is
    marked as seen, and a variant of the exercise, to be passed instead, is put into a new cell. In a notebook that counts
    for a grade, it is not available.

    Args:
        exercise: the exercise's id, as in its check cell.
    """
    lesson = _lesson_of(exercise)
    if lesson is None:
        return
    if is_for_credit(exercise):
        print(translated("This notebook counts for a grade, so the model answer is not shown. Ask your teacher."))
        return
    source = notebook_of(SOLUTIONS, lesson)
    stuck = _hints_used[exercise] >= TRIES and wrong_answers[exercise] >= TRIES
    if exercise not in store.passed() and not stuck:
        print(
            translated(
                "The model answer to {exercise} is shown once your own answer has passed its check, or after {tries} hints and "
                "{tries} wrong answers ({hints} and {wrong} so far).",
                exercise=exercise,
                tries=TRIES,
                hints=min(_hints_used[exercise], TRIES),
                wrong=min(wrong_answers[exercise], TRIES),
            )
        )
    elif not source.exists():
        print(translated("This copy of the course does not include the model answers. Ask your teacher."))
    else:
        exercises = {each.id: each for each in exercises_of(as_handed_out(source, exercise))}
        if exercise not in store.passed():
            store.mark_seen(exercise)
            print(
                translated(
                    "Marked as seen before your answer passed. Close it, and write the answer in your own words."
                )
            )
            _offer_another_variant(exercise, source)
        print(exercises[exercise].of_kind("answer")[0].source.removeprefix("# answer: "))


def _offer_another_variant(exercise: str, source: Path) -> None:
    """Put a variant of the exercise, with other names or numbers, into a new cell, if there is such a variant."""
    shell, variant = get_ipython(), own_variant(exercise)
    changes = read_changes(SOLUTIONS, source.stem)
    offered = another_variant(
        exercise, read_stored(source), changes, () if variant is None else (variant.stubs[exercise],)
    )
    if shell is not None and offered is not None:
        shell.set_next_input(offered)
        print(
            translated(
                "A variant to pass instead is in the cell below: fix the program there, and run that cell to check it."
            )
        )


def as_handed_out(source: Path, exercise: str) -> NotebookNode:
    """Return a lesson's source in the variant that this student got."""
    variant, notebook = own_variant(exercise), read_stored(source)
    return notebook if variant is None else vary(notebook, variant.seed, read_changes(SOLUTIONS, source.stem))


def _lesson_of(exercise: str) -> Lesson | None:
    lesson_of = {e.id: lesson for lesson in lessons() for e in lesson.exercises}
    if exercise in lesson_of:
        return lesson_of[exercise]
    if exercise.startswith(("prediction_", "culprit_")):
        print(
            translated(
                "Predictions and named lines have no hints: read the program line by line, or try an answer and see."
            )
        )
        return None
    near = difflib.get_close_matches(exercise, lesson_of, n=1)
    problem = (
        translated("There is no exercise {name}.", name=repr(exercise)) if exercise else translated("Which exercise?")
    )
    meant = translated("Did you mean {name}?", name=repr(near[0])) if near else ""
    print(join_sentences([problem, meant or translated("Write one of these names, in quotes:")]))
    for lesson in lessons() if not near else ():
        names = ", ".join(exercise.id for exercise in lesson.exercises)
        print(translated("  lesson {number}: {names}", number=int(lesson.name[:2]), names=names))
    return None


def notebook_of(folder: Path, lesson: Lesson) -> Path:
    """Return the path of a lesson's notebook in one of the course's folders."""
    return folder / lesson.name / f"{lesson.name}.ipynb"
