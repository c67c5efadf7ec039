"""Whether one student's answers fit another's checks: measured on pairs of variants, by running them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping

import msgspec

from autograder.course.variants.variant_proof import ProvenVariant, names_after, verdict_on

PAIRS = 12


class SharedAnswers(msgspec.Struct, frozen=True):
    """How many answers of one variant pass the check of another.

    Attributes:
        pairs: how many ordered pairs of variants were tried.
        programs: answers that are programs, and of these those that pass.
        predictions: the same of predictions, whose answer is a word, a number or a line.
    """

    pairs: int
    programs: tuple[int, int]
    predictions: tuple[int, int]


def count_shared_answers(proven: Mapping[int, list[ProvenVariant]], pairs: int = PAIRS) -> SharedAnswers:
    """Tries the model answers of some variants on the checks of others, as they stand.

    Args:
        proven: each variant's notebooks, by its seed.
        pairs: how many ordered pairs are tried at most; always the same ones for the same seeds.
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
    """Returns for each exercise whether it is a prediction, and whether the answer passes."""
    names = names_after(taken.setup)
    return [
        (theirs.is_prediction, verdict_on(ours.answers[0], theirs.check, names, seed) is None)
        for ours, theirs in zip(given.exercises, taken.exercises, strict=True)
    ]
