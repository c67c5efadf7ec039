"""Hints on request: three rungs, free, counted only so that the next call shows the next one."""

from __future__ import annotations

from collections import Counter

from autograder.course.catalogue import exercises

_shown: Counter[str] = Counter()


def hint(exercise: str) -> None:
    """Prints the next of the exercise's three hints; after the last it starts again.

    Args:
        exercise: the exercise's id, as in its check cell.
    """
    known = exercises()
    if exercise not in known:
        print(f"There is no exercise {exercise!r}. Write one of: {', '.join(known)}.")
        return
    hints = known[exercise].hints
    rung = _shown[exercise] % len(hints)
    _shown[exercise] += 1
    print(f"Hint {rung + 1} of {len(hints)}: {hints[rung]}")
