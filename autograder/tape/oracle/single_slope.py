"""Compare the derivative of a single function with finite differences at one point, in double precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from autograder.tape.oracle.weighted_sum import weighted_sum

Answer = Literal["slope", "choice", "wrong", "unknown"]

FINE, COARSE = 1e-6, 1e-4  # step sizes along a direction of norm about 1, in float64
# Tolerances of torch.autograd.gradcheck (2.13); it is not called, because it imports sympy, which takes 0.4 s.
ABSOLUTE, RELATIVE = 1e-5, 1e-3
# Largest relative difference of the two step sizes; more indicates a kink, a jump, or rounding to float32.
TRUSTED = 1e-2
NEARBY = 1e-2  # distance of other points, to distinguish a kink at the point from a wrong formula
POINTS = 2


@dataclass(frozen=True)
class SlopeAnswer:
    """The result of comparing a function's derivative with finite differences.

    Attributes:
        answer: "slope" if both agree; "choice" if the function is constant or returns its input but defines another
            derivative, as straight-through estimators and gradient reversals do; "wrong" if they differ at the point
            and near it; "unknown" if finite differences cannot decide.
        forward: directional derivative along a random direction, by finite differences.
        backward: the same directional derivative, by backward.
    """

    answer: Answer
    forward: float = 0.0
    backward: float = 0.0


def examine(function: Callable[..., Any], inputs: Sequence[Tensor]) -> SlopeAnswer:
    """Compare the derivative of a function with finite differences.

    `inputs` are double-precision leaves that require grad.
    """
    try:
        if _agrees(function, inputs):
            return SlopeAnswer("slope")
        if not _repeats(function, inputs):
            return SlopeAnswer("unknown")
        forward, backward = _slopes(function, inputs, FINE)
        coarse, _ = _slopes(function, inputs, COARSE)
        if abs(forward - coarse) > TRUSTED * max(abs(forward), abs(coarse), 1e-6):
            return SlopeAnswer("unknown")
        if _is_choice(function, inputs):
            return SlopeAnswer("choice", forward, backward)
        if any(_agrees(function, point) for point in _nearby(inputs)):
            return SlopeAnswer("unknown", forward, backward)
        return SlopeAnswer("wrong", forward, backward)
    except Exception:  # the function does not support double precision, or cannot run alone
        return SlopeAnswer("unknown")


def examine_twice(function: Callable[..., Any], inputs: Sequence[Tensor]) -> SlopeAnswer:
    """Compare the derivative of a function's gradient, as `create_graph=True` computes it, with finite differences."""
    generator = torch.Generator().manual_seed(2)
    try:
        shapes = [one.shape for one in _outputs(function, inputs)]
    except Exception:  # as in `examine`
        return SlopeAnswer("unknown")
    weights = [torch.randn(one, generator=generator, dtype=torch.float64).requires_grad_() for one in shapes]

    def gradient(*values: Tensor) -> list[Tensor]:
        leaves = [one if one.requires_grad else one.clone().requires_grad_() for one in values]
        points, ways = leaves[: len(inputs)], leaves[len(inputs) :]
        found = torch.autograd.grad(_outputs(function, points), points, ways, create_graph=True, allow_unused=True)
        return [one for one in found if one is not None]

    return examine(gradient, [*inputs, *weights])


def _agrees(function: Callable[..., Any], inputs: Sequence[Tensor]) -> bool:
    forward, backward = _slopes(function, inputs, FINE)
    return abs(forward - backward) <= ABSOLUTE + RELATIVE * abs(forward)


def _outputs(function: Callable[..., Any], inputs: Sequence[Tensor]) -> list[Tensor]:
    result = function(*inputs)
    found = [result] if isinstance(result, Tensor) else [one for one in result if isinstance(one, Tensor)]
    return [one for one in found if one.is_floating_point() and one.requires_grad]


def _repeats(function: Callable[..., Any], inputs: Sequence[Tensor]) -> bool:
    pairs = zip(_outputs(function, inputs), _outputs(function, inputs), strict=True)
    return all(torch.equal(one, other) for one, other in pairs)


def _slopes(function: Callable[..., Any], inputs: Sequence[Tensor], step: float) -> tuple[float, float]:
    """Return a directional derivative of a random linear combination of the outputs, by finite differences and by backward."""
    generator = torch.Generator().manual_seed(0)
    outputs = _outputs(function, inputs)
    if not outputs:
        raise ValueError("none of its outputs is differentiable")
    weights = [torch.randn(one.shape, generator=generator, dtype=torch.float64) for one in outputs]
    directions = [torch.randn(one.shape, generator=generator, dtype=torch.float64) for one in inputs]
    total = weighted_sum(zip(outputs, weights, strict=True))
    found = torch.autograd.grad(total, list(inputs), allow_unused=True)
    claimed = sum(
        float((gradient * way).sum()) for gradient, way in zip(found, directions, strict=True) if gradient is not None
    )

    def value(side: float) -> float:
        moved = [(one.detach() + side * way).requires_grad_() for one, way in zip(inputs, directions, strict=True)]
        return sum(
            float((one.detach() * weight).sum()) for one, weight in zip(_outputs(function, moved), weights, strict=True)
        )

    return (value(step) - value(-step)) / (2 * step), claimed


def _is_choice(function: Callable[..., Any], inputs: Sequence[Tensor]) -> bool:
    """Return whether the function returns an input, or is constant along an input that has a gradient."""
    outputs = _outputs(function, inputs)
    if any(one.shape == other.shape and torch.equal(one, other) for one in outputs for other in inputs):
        return True
    for place, varied in enumerate(inputs):
        others = [one.detach() for one in inputs]

        def along(value: Tensor, place: int = place, others: list[Tensor] = others) -> Any:
            return function(*(value if at == place else one for at, one in enumerate(others)))

        forward, backward = _slopes(along, [varied], FINE)
        if abs(forward) < 1e-9 < abs(backward):
            return True
    return False


def _nearby(inputs: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    generator = torch.Generator().manual_seed(1)
    for _ in range(POINTS):
        yield [
            (one.detach() + NEARBY * torch.randn(one.shape, generator=generator, dtype=torch.float64)).requires_grad_()
            for one in inputs
        ]


def in_double(argument: object) -> object:
    """Return a copy of an argument in double precision, as a leaf that requires grad if the argument does."""
    if isinstance(argument, list | tuple) and type(argument) in (list, tuple):
        return type(argument)(in_double(item) for item in argument)
    if not isinstance(argument, Tensor):
        return argument
    copy = argument.detach().clone()
    return copy.double().requires_grad_(argument.requires_grad) if copy.is_floating_point() else copy
