"""Compare the gradients of two runs of a program, and compute correct ones without the recorded graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from autograder.tape.internals.tensor_fields import has_values, is_batched
from autograder.tape.run.finished_run import Run
from autograder.tape.run.storages import is_allocated

# Central differences have a truncation error of step²·f'''/6 and a rounding error of about 1e-16·|f|/step in float64.
# The cube root of 1e-16 balances the two, with an error of about 1e-10 of the value.
STEP = 6e-6
SPARSE = 4  # largest ratio of the memory that a view spans to that of its elements, if a copy keeps its strides


def clone_on_save() -> AbstractContextManager[None]:
    """Return a context in which every saved tensor is a copy that later in-place modifications do not change.

    A backward through a graph created in this context gives the gradients for the values of the forward. The context
    disables the version check (`torch.autograd.graph.saved_tensors_hooks`, PyTorch 2.13), so do not use it in the run
    that determines an outcome.
    """
    return torch.autograd.graph.saved_tensors_hooks(copy_of, lambda save: save)


def copy_of(saved: torch.Tensor) -> torch.Tensor:
    """Return a copy with the same strides: another layout changes the order of sums, and so the rounding errors."""
    if is_batched(saved):
        return saved.clone()
    saved = saved.detach()
    if not is_allocated(saved):
        return saved
    copy = saved.clone()
    if copy.layout != torch.strided or copy.is_nested or not copy.numel() or copy.stride() == saved.stride():
        return copy
    span = 1 + sum((size - 1) * stride for size, stride in zip(saved.shape, saved.stride(), strict=True))
    if span > SPARSE * copy.numel():
        return copy
    return saved.as_strided((span,), (1,)).clone().as_strided(saved.shape, saved.stride(), 0)


def finite_differences(
    function: Callable[..., torch.Tensor], inputs: dict[str, torch.Tensor], *, step: float = STEP
) -> dict[str, torch.Tensor]:
    """Return the gradient of a scalar function with respect to its inputs, by central differences in float64.

    Args:
        function: called with a keyword argument for each input, twice for each element; must not keep state between
            calls.
        inputs: the point, by name; never modified, and passed as new float64 copies that do not require grad.
        step: step size in both directions, multiplied by the absolute value of the element if that exceeds 1.

    Returns:
        A float64 tensor for each input, of the same shape.
    """
    point = {name: tensor.detach().to(torch.float64) for name, tensor in inputs.items()}
    return {name: _derivatives(function, point, name, step) for name in point}


def _derivatives(
    function: Callable[..., torch.Tensor], point: dict[str, torch.Tensor], name: str, step: float
) -> torch.Tensor:
    def value(index: int, distance: float) -> float:
        moved = {key: tensor.clone() for key, tensor in point.items()}
        moved[name].view(-1)[index] += distance
        return float(function(**moved))

    derivatives = torch.empty_like(point[name], memory_format=torch.contiguous_format)
    for index, at in enumerate(point[name].reshape(-1).tolist()):
        distance = step * max(1.0, abs(at))
        derivatives.view(-1)[index] = (value(index, distance) - value(index, -distance)) / (2 * distance)
    return derivatives


SAME = 2e-6  # relative: rounding errors of the same operations if sums are computed in another order
ROUNDING = 1e-5  # relative: a sum in float32 whose terms cancel, such as the gradient of a bias before a softmax
LISTED = 4096  # largest number of elements of a gradient that a report lists; all gradients are compared in full


@dataclass
class Gradients:
    """The gradients of a run."""

    # items of the dictionary that the function returned, by key; empty if it returned another type
    returned: dict[str, object] = field(default_factory=dict)
    # numbers of all tensors that received a gradient from a backward, in order
    targets: list[int] = field(default_factory=list)
    # keys of the targets, which are equal for the same target in another run
    keys: list[tuple[Any, ...]] = field(default_factory=list)
    # for each backward, the gradient of each target (by its index) just after the call
    calls: list[dict[int, torch.Tensor | None]] = field(default_factory=list)
    final: list[torch.Tensor | None] = field(default_factory=list)  # `.grad` of each target at the end
    names: dict[int, str] = field(default_factory=dict)

    @cached_property
    def of_target(self) -> dict[int, dict[int, torch.Tensor | None]]:
        """The gradients by target and call. A call has few, but a program that differentiates through its training has thousands."""
        by_target: dict[int, dict[int, torch.Tensor | None]] = {}
        for number, call in enumerate(self.calls):
            for target, gradient in call.items():
                by_target.setdefault(target, {})[number] = gradient
        return by_target

    def first_not_finite(self) -> int | None:
        """Return the index of the first backward with a gradient that contains nan or inf, or None if there is no such call."""
        pairs = ((number, gradient) for number, call in enumerate(self.calls) for gradient in call.values())
        return next((number for number, gradient in pairs if not (gradient is None or gradient.isfinite().all())), None)

    def first_difference(self, true: Gradients, limit: float) -> int | None:
        """Return the index of the first backward whose gradients differ by more than `limit` (relative), or None."""
        calls = enumerate(_paired_calls(self, true))
        return next((number for number, pairs in calls if any(gap(*pair) > limit for pair in pairs)), None)


def gradients_of(run: Run) -> Gradients:
    """Return the gradients of a run. Targets are in order of first appearance."""
    gradients, index = Gradients(dict(_returned(run.returned))), {}
    shared = _shared_by_threads(run)
    for call in run.calls:
        for target, key in zip(call.numbers, call.keys, strict=True):
            if target not in index:
                index[target] = len(gradients.targets)
                gradients.targets.append(target)
                gradients.keys.append(key)
        gradients.names |= call.names
        computed = zip(call.numbers, call.gradients, strict=False)
        gradients.calls.append({index[t]: run.final.get(t) if t in shared else g for t, g in computed})
    gradients.final = [run.final.get(target) for target in gradients.targets]
    return gradients


def _shared_by_threads(run: Run) -> set[int]:
    """Return the targets that several threads fill. Which gradient comes first differs between runs, the sum does not."""
    threads: dict[int, set[int]] = {}
    for call in run.calls:
        for target in () if call.returns else call.numbers:
            threads.setdefault(target, set()).add(call.thread)
    return {target for target, numbers in threads.items() if len(numbers) > 1}


def _returned(value: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        if isinstance(item, dict):
            yield from _returned(item, f"{prefix}{key}.")
        elif isinstance(item, (torch.Tensor, float, int, list, tuple, type(None))) or type(item).__module__ == "numpy":
            yield f"{prefix}{key}", item


def aligned(left: Gradients, right: Gradients) -> dict[int, int]:
    """Return the index in `right` for each target of `left`.

    Targets are matched by shape and values, else by position if the numbers of targets are equal. Targets of only one
    run are left out; `torch.utils.checkpoint` computes with copies of its inputs as leaves.
    """
    pairs: dict[int, int] = {}
    places, others = _places(left.keys), _places(right.keys)
    for key, lefts in places.items():
        if rights := others.get(key):
            pairs |= _paired(left, right, lefts, rights)
        elif len(left.keys) == len(right.keys):
            pairs |= {index: index for index in lefts if right.keys[index][0] == key[0]}
    return pairs


def _places(keys: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], list[int]]:
    """Return the indices of each key."""
    places: dict[tuple[Any, ...], list[int]] = {}
    for index, key in enumerate(keys):
        places.setdefault(key, []).append(index)
    return places


def _paired(left: Gradients, right: Gradients, lefts: list[int], rights: list[int]) -> dict[int, int]:
    """Return pairs in order, or another pairing if it makes the gradients equal.

    Leaves of equal shape and values are otherwise indistinguishable, and the backward of a checkpoint fills them in
    another order.
    """
    pairs = dict(zip(lefts, rights, strict=False))
    unequal = [left_key for left_key, theirs in pairs.items() if not _alike(left, right, left_key, theirs)]
    while unequal:
        left_key = unequal.pop()
        counterpart = next((other for other in unequal if _alike(left, right, left_key, pairs[other])), None)
        if counterpart is not None:
            pairs[left_key], pairs[counterpart] = pairs[counterpart], pairs[left_key]
            if _alike(left, right, counterpart, pairs[counterpart]):
                unequal.remove(counterpart)
    return pairs


def _alike(left: Gradients, right: Gradients, left_key: int, right_key: int) -> bool:
    ours, theirs = left.of_target.get(left_key, {}), right.of_target.get(right_key, {})
    calls = [number for number in ours.keys() | theirs.keys() if number < min(len(left.calls), len(right.calls))]
    pairs = [(left.final[left_key], right.final[right_key])] + [(ours.get(call), theirs.get(call)) for call in calls]
    return all(gap(*pair) <= SAME for pair in pairs)


def gap(got: object, true: object) -> float:
    """Return the largest difference relative to the largest element: 0 for None and zeros, infinity for unequal shapes."""
    if isinstance(got, torch.Tensor) and isinstance(true, torch.Tensor) and got.dtype == true.dtype:
        is_dense = all(has_values(gradient) and gradient.layout == torch.strided for gradient in (got, true))
        if is_dense and torch.equal(got.detach(), true.detach()):
            return 0.0  # as for most gradients; a copy in double precision takes longer
    got_numbers, true_numbers = _numbers(got), _numbers(true)
    if got_numbers is None or true_numbers is None:
        present = true_numbers if got_numbers is None else got_numbers
        return 0.0 if present is None or not present.any() else float("inf")
    if got_numbers.shape != true_numbers.shape:
        return float("inf")
    if torch.equal(got_numbers, true_numbers):
        return 0.0
    same = (got_numbers == true_numbers) | (got_numbers.isnan() & true_numbers.isnan())
    difference = torch.where(same, 0.0, (got_numbers - true_numbers).abs())
    finite = torch.isfinite(got_numbers) & torch.isfinite(true_numbers)
    scale = torch.maximum(got_numbers.abs(), true_numbers.abs())[finite]
    if not torch.isfinite(difference).all():
        return float("inf")
    return float(difference.max()) / max(float(scale.max()) if scale.numel() else 0.0, 1e-30)


def distance(got: object, true: object, size: float = 0.0) -> float | None:
    """Return the 2-norm of the difference divided by that of the correct gradient, or None if that is missing, zero or not finite.

    `size` is the largest 2-norm of a correct gradient of the same backward. A correct gradient that is zero compared with
    it, up to rounding, is not a measure, and the difference is divided by `size`.
    """
    got_numbers, true_numbers = _numbers(got), _numbers(true)
    if true_numbers is None or not true_numbers.any():
        return 0.0 if true_numbers is not None and (got_numbers is None or not got_numbers.any()) else None
    got_numbers = torch.zeros_like(true_numbers) if got_numbers is None else got_numbers
    if got_numbers.shape != true_numbers.shape:
        return None
    scale = float(true_numbers.norm())
    measure = size if scale < ROUNDING * size else scale
    # The norm of denormal numbers is 0.
    ratio = float((got_numbers - true_numbers).norm()) / measure if measure else math.inf
    return ratio if math.isfinite(ratio) else None


def length(gradient: object) -> float:
    """Return the 2-norm of a gradient; 0 if it is missing or not finite."""
    numbers = _numbers(gradient)
    norm = 0.0 if numbers is None else float(numbers.norm())
    return norm if math.isfinite(norm) else 0.0


def _paired_calls(got: Gradients, true: Gradients) -> Iterator[list[tuple[object, object]]]:
    """Yield, for each backward call of both runs, pairs of the gradients of the targets that both have."""
    pairs = aligned(got, true)
    for ours, theirs in zip(got.calls, true.calls, strict=False):
        yield [(ours[index], theirs.get(pairs[index])) for index in ours if index in pairs]


def diverged_at(got: Run, true: Run, limit: float) -> int | None:
    """Return the index of the first backward call with other gradients if it started from other leaves, else None.

    Leaves differ without a wrong gradient if an optimizer such as Adam enlarged the rounding errors of earlier gradients.
    """
    rounded = False
    for number, pairs in enumerate(_paired_calls(gradients_of(got), gradients_of(true))):
        gaps = [gap(*pair) for pair in pairs]
        if max(gaps, default=0.0) > limit:
            has_diverged = rounded and set(got.calls[number].keys) != set(true.calls[number].keys)
            return number if has_diverged else None
        rounded = rounded or any(gaps)
    return None


def differ(got: Run, true: Run, limit: float) -> bool:
    """Return whether a backward call gave gradients that differ by more than `limit` (relative)."""
    return gradients_of(got).first_difference(gradients_of(true), limit) is not None


def loses_gradients(got: Run, true: Run) -> bool:
    """Return whether a target has a gradient, be it zero, in a backward call of `got` but not in the same call of `true`."""
    calls = _paired_calls(gradients_of(got), gradients_of(true))
    return any(right is None and left is not None for pairs in calls for left, right in pairs)


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


def nested(value: object) -> list[Any] | float | None:
    """Return a gradient as nested lists, or None if it is missing or too large to list."""
    numbers = _numbers(value)
    if numbers is None or numbers.numel() > LISTED:
        return None
    if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64:
        # 0.1 in float32 is 0.10000000149 in float64; list the shortest decimal number that rounds to the float32 value.
        return _shortest(numbers.to(torch.float32).tolist())
    return numbers.tolist()


def nested_pair(got: object, true: object) -> tuple[list[Any] | float | None, list[Any] | float | None]:
    """Return both gradients as `nested` does. Equal ones, the majority in a large training step, are converted once."""
    listed = nested(got)
    got_numbers, true_numbers = _numbers(got), _numbers(true)
    is_same = got_numbers is not None and true_numbers is not None and torch.equal(got_numbers, true_numbers)
    return listed, listed if is_same else nested(true)


def _shortest(value: list[Any] | float) -> list[Any] | float:
    if isinstance(value, list):
        return [_shortest(item) for item in value]
    return float(f"{value:.8g}")
