"""A measurement of whether one student's answers pass another's checks, by running them on pairs of variants."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping

import msgspec

from autograder.course.variants.variant_proof import ProvenVariant, names_after, verdict_on

PAIRS = 12


class SharedAnswers(msgspec.Struct, frozen=True):
    """The number of answers of one variant that pass the check of another.

    Attributes:
        pairs: the number of ordered pairs of variants that were tried.
        programs: the number of answers that are programs, and the number of these that pass.
        predictions: the same for predictions, whose answer is a word, a number or a line.
        exercises: the same for each exercise, by its id.
    """

    pairs: int
    programs: tuple[int, int]
    predictions: tuple[int, int]
    exercises: dict[str, tuple[int, int]] = {}


def count_shared_answers(proven: Mapping[int, list[ProvenVariant]], pairs: int = PAIRS) -> SharedAnswers:
    """Run the model answers of some variants in the checks of others, unchanged.

    Args:
        proven: each variant's notebooks, by its seed.
        pairs: the maximum number of ordered pairs; the same seeds give the same pairs.
    """
    every = list(itertools.permutations(sorted(proven), 2))
    tried = random.Random(0).sample(every, min(pairs, len(every)))
    counts: dict[str, list[bool]] = {}
    kinds: dict[str, bool] = {}
    for giver, taker in tried:
        for given, taken in zip(proven[giver], proven[taker], strict=True):
            for exercise, fits in zip(taken.exercises, _fits(given, taken, taker), strict=True):
                counts.setdefault(exercise.id, []).append(fits)
                kinds[exercise.id] = exercise.is_prediction
    exercises = {name: (len(fits), sum(fits)) for name, fits in counts.items()}
    programs, predictions = (_total(exercises[name] for name in kinds if kinds[name] is kind) for kind in (False, True))
    return SharedAnswers(len(tried), programs, predictions, exercises)


def _total(counts: Iterable[tuple[int, int]]) -> tuple[int, int]:
    tried, passed = zip((0, 0), *counts, strict=True)
    return sum(tried), sum(passed)


def _fits(given: ProvenVariant, taken: ProvenVariant, seed: int) -> list[bool]:
    """Return, for each exercise, whether the answer passes."""
    names = names_after(taken.setup)
    return [
        verdict_on(ours.answers[0], theirs.check, names, seed) is None
        for ours, theirs in zip(given.exercises, taken.exercises, strict=True)
    ]
