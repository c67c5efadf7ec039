"""A program that differentiates its own steps has other targets in each of its calls: thousands, which are paired quickly."""

from unittest import mock

import torch

from autograder.tape.oracle import gradient_comparison
from autograder.tape.oracle.gradient_comparison import Gradients, aligned, first_difference


def run_of(calls: int, *, turned: bool = False) -> Gradients:
    """Return the results of a run with this number of calls with two targets each; `turned` swaps each pair."""
    generator, made = torch.Generator().manual_seed(1), Gradients()
    for number in range(calls):
        values = torch.randn(2, 3, generator=generator)
        pair = {2 * number: values[int(turned)], 2 * number + 1: values[1 - int(turned)]}
        made.calls.append(pair)
        made.targets += list(pair)
        made.keys += [((3,), torch.float32, False, number)] * 2
        made.final += [None, None]
    return made


def test_targets_of_equal_values_are_paired_by_their_gradients():
    """Swapped pairs are found, and then the results are equal."""
    left, right = run_of(50), run_of(50, turned=True)
    pairs = aligned(left, right)
    assert {index: index ^ 1 for index in range(100)} == pairs
    assert first_difference(left, right, 1e-6, pairs) is None
    right.calls[7][15] = torch.zeros(3)
    assert 7 == first_difference(left, right, 1e-6, pairs)


def test_the_number_of_comparisons_grows_with_the_program():
    """Four times as many calls take four times as many comparisons, not sixteen times."""
    counts = []
    for calls in (100, 400):
        with mock.patch.object(gradient_comparison, "gap", wraps=gradient_comparison.gap) as gap:
            aligned(run_of(calls), run_of(calls))
        counts.append(gap.call_count)
    assert counts[1] <= 4.5 * counts[0]
