"""The gradients of two runs of one program, compared."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from autograder.tape.internals.tensor_fields import has_values
from autograder.tape.run.finished_run import Run

SAME = 2e-6  # relative: the same operations on the same numbers, added up in another order
LISTED = 4096  # entries of a gradient that a report lists; a larger one is compared in full and not listed


@dataclass
class Gradients:
    """What one run left.

    Attributes:
        returned: what the function returned, by key, where it returned a dictionary.
        targets: the number of every tensor that some backward had a gradient for, in order; `keys` tells the same target of another run.
        calls: for each backward, the gradient of each target (by its index) just after it.
        final: each target's `.grad` at the end.
    """

    returned: dict[str, object] = field(default_factory=dict)
    targets: list[int] = field(default_factory=list)
    keys: list[tuple] = field(default_factory=list)
    calls: list[dict[int, torch.Tensor | None]] = field(default_factory=list)
    final: list[torch.Tensor | None] = field(default_factory=list)


def gradients_of(run: Run) -> Gradients:
    """Return a run's gradients, its targets numbered in order of first appearance."""
    left, index = Gradients(dict(_returned(run.returned))), {}
    for call in run.calls:
        for target, key in zip(call.numbers, call.keys, strict=True):
            if target not in index:
                index[target] = len(left.targets)
                left.targets.append(target)
                left.keys.append(key)
        left.calls.append({index[t]: g for t, g in zip(call.numbers, call.gradients, strict=False)})
    left.final = [run.final.get(target) for target in left.targets]
    return left


def _returned(value: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        if isinstance(item, dict):
            yield from _returned(item, f"{prefix}{key}.")
        elif isinstance(item, (torch.Tensor, float, int, list, tuple, type(None))) or type(item).__module__ == "numpy":
            yield f"{prefix}{key}", item


def aligned(left: Gradients, right: Gradients) -> dict[int, int]:
    """Returns for each target of `left` its index in `right`: by shape and values, else by position where there are as many.

    A target that only one run has is left out: `torch.utils.checkpoint` computes with copies of its inputs as leaves.
    """
    found: dict[int, int] = {}
    both = _ByTarget(left), _ByTarget(right)
    places, others = _places(left.keys), _places(right.keys)
    for key, lefts in places.items():
        if rights := others.get(key):
            found |= _paired(*both, lefts, rights)
        elif len(left.keys) == len(right.keys):
            found |= {index: index for index in lefts if right.keys[index][0] == key[0]}
    return found


def _places(keys: list[tuple]) -> dict[tuple, list[int]]:
    """Returns the places of each key."""
    places: dict[tuple, list[int]] = {}
    for index, key in enumerate(keys):
        places.setdefault(key, []).append(index)
    return places


class _ByTarget:
    """What one run left, by target: each call has few of them, and a program that differentiates its own steps has thousands."""

    def __init__(self, gradients: Gradients):
        self.final = gradients.final
        self.calls = len(gradients.calls)
        self.given: dict[int, dict[int, torch.Tensor | None]] = {}
        for number, call in enumerate(gradients.calls):
            for target, gradient in call.items():
                self.given.setdefault(target, {})[number] = gradient


def _paired(left: _ByTarget, right: _ByTarget, lefts: list[int], rights: list[int]) -> dict[int, int]:
    """Returns pairs in order, except where another pairing makes gradients equal.

    Leaves of equal shape and values cannot be told apart otherwise, and a checkpoint's backward fills them in another order.
    """
    pairs = dict(zip(lefts, rights, strict=False))
    odd = [one for one, other in pairs.items() if not _alike(left, right, one, other)]
    while odd:
        one = odd.pop()
        twin = next((other for other in odd if _alike(left, right, one, pairs[other])), None)
        if twin is not None:
            pairs[one], pairs[twin] = pairs[twin], pairs[one]
            odd = [other for other in odd if other != twin or not _alike(left, right, twin, pairs[twin])]
    return pairs


def _alike(left: _ByTarget, right: _ByTarget, one: int, other: int) -> bool:
    ours, theirs = left.given.get(one, {}), right.given.get(other, {})
    calls = [number for number in ours.keys() | theirs.keys() if number < min(left.calls, right.calls)]
    return gap(left.final[one], right.final[other]) <= SAME and all(
        gap(ours.get(number), theirs.get(number)) <= SAME for number in calls
    )


def gap(got: object, true: object) -> float:
    """Returns the distance of two gradients relative to the larger: 0 for None and zeros, infinity where shapes differ."""
    one, other = _numbers(got), _numbers(true)
    if one is None or other is None:
        present = other if one is None else one
        return 0.0 if present is None or not present.any() else float("inf")
    if one.shape != other.shape:
        return float("inf")
    if one.numel() == 0 or torch.equal(one, other):
        return 0.0
    same = (one == other) | (one.isnan() & other.isnan())
    difference = torch.where(same, 0.0, (one - other).abs())
    scale = torch.maximum(one.abs(), other.abs())[torch.isfinite(one) & torch.isfinite(other)]
    if not torch.isfinite(difference).all():
        return float("inf")
    return float(difference.max()) / max(float(scale.max()) if scale.numel() else 0.0, 1e-30)


def distance(got: object, true: object) -> float | None:
    """Returns the length of the difference over that of the right gradient, where there is one and it is finite and not zero."""
    one, other = _numbers(got), _numbers(true)
    if other is None or not other.any():
        return 0.0 if other is not None and (one is None or not one.any()) else None
    one = torch.zeros_like(other) if one is None else one
    if one.shape != other.shape:
        return None
    found = float((one - other).norm() / other.norm())
    return found if math.isfinite(found) else None


def first_difference(got: Gradients, true: Gradients, limit: float, pairs: dict[int, int] | None = None) -> int | None:
    """Returns the number of the first backward whose gradients differ by more than a limit (relative), None where none does."""
    pairs = aligned(got, true) if pairs is None else pairs
    for number, (one, other) in enumerate(zip(got.calls, true.calls, strict=False)):
        if any(gap(one[index], other.get(pairs[index])) > limit for index in one if index in pairs):
            return number
    return None


def _numbers(value: object) -> torch.Tensor | None:
    if value is None:
        return None
    try:
        tensor = value.detach() if isinstance(value, torch.Tensor) else torch.as_tensor(value)
        if not has_values(tensor):
            return None
        if tensor.layout != torch.strided:
            tensor = tensor.to_dense()
        tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        return tensor.to(torch.float64)
    except (TypeError, ValueError, RuntimeError):
        return None


def nested(value: object) -> list | float | None:
    """Returns a gradient as nested lists, or None where there is none or it is too large to list."""
    numbers = _numbers(value)
    if numbers is None or numbers.numel() > LISTED:
        return None
    if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64:
        # 0.1 in single precision reads 0.10000000149 in double; the shortest text of the same number is shown.
        return _shortest(numbers.to(torch.float32).tolist())
    return numbers.tolist()


def nested_pair(got: object, true: object) -> tuple[list | float | None, list | float | None]:
    """Returns both gradients as `nested` does; equal ones are listed once, as nearly all of a large training step are."""
    listed = nested(got)
    one, other = _numbers(got), _numbers(true)
    is_same = one is not None and other is not None and torch.equal(one, other)
    return listed, listed if is_same else nested(true)


def _shortest(value: list | float) -> list | float:
    if isinstance(value, list):
        return [_shortest(item) for item in value]
    return float(f"{value:.8g}")
