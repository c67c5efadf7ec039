"""A measurement of whether one student's answers pass another's checks, by running them on pairs of variants."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping

import msgspec

from autograder.course.variants.variant_proof import ProvenVariant, names_after, verdict_on

PAIRS = 12


class SharedAnswers(msgspec.Struct, frozen=True):
    """The number of answers of one variant that pass the check of another.

    Attributes:
        pairs: the number of ordered pairs of variants that were tried.
        programs: the number of answers that are programs, and the number of these that pass.
        predictions: the same for predictions, whose answer is a word, a number or a line.
    """

    pairs: int
    programs: tuple[int, int]
    predictions: tuple[int, int]


def count_shared_answers(proven: Mapping[int, list[ProvenVariant]], pairs: int = PAIRS) -> SharedAnswers:
    """Run the model answers of some variants in the checks of others, unchanged.

    Args:
        proven: each variant's notebooks, by its seed.
        pairs: the maximum number of ordered pairs; the same seeds give the same pairs.
    """
    every = list(itertools.permutations(sorted(proven), 2))
    tried = random.Random(0).sample(every, min(pairs, len(every)))
    passed = {True: [0, 0], False: [0, 0]}
    for giver, taker in tried:
        for given, taken in zip(proven[giver], proven[taker], strict=True):
            for is_prediction, fits in _fits(given, taken, taker):
                passed[is_prediction][0] += 1
                passed[is_prediction][1] += fits
    return SharedAnswers(len(tried), tuple(passed[False]), tuple(passed[True]))  # type: ignore[arg-type]


def _fits(given: ProvenVariant, taken: ProvenVariant, seed: int) -> list[tuple[bool, bool]]:
    """Return, for each exercise, whether it is a prediction and whether the answer passes."""
    names = names_after(taken.setup)
    return [
        (theirs.is_prediction, verdict_on(ours.answers[0], theirs.check, names, seed) is None)
        for ours, theirs in zip(given.exercises, taken.exercises, strict=True)
    ]
