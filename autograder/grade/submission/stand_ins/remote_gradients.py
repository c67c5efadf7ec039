"""Tensors that the worker computed, in the trusted side's graph: backward through them is asked of the worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograder.grade.wire.values.array_types import tensors

Pull = Callable[[list[int], list[torch.Tensor]], Any]
"""Returns the gradients of an operation's tensor arguments, given positions of results and their gradients."""


def with_history(value: Any, positions: list[int], inputs: list[torch.Tensor], pull: Pull) -> Any:
    """Returns a result whose tensors at these positions are connected to the arguments, and to the worker's own leaves."""
    found = tensors(value)
    chosen = [index for index in positions if type(index) is int and 0 <= index < len(found) and _differs(found[index])]
    if not chosen:
        return value
    # Backward has to arrive also where no argument requires grad: the worker's parameters may.
    start = torch.zeros((), requires_grad=True)
    joined = _RemoteFunction.apply(pull, chosen, start, *[found[index].detach() for index in chosen], *inputs)
    return _replaced(value, {id(found[index]): tensor for index, tensor in zip(chosen, joined, strict=True)})


class _RemoteFunction(torch.autograd.Function):
    """Values that the worker computed; only it can compute their gradients."""

    @staticmethod
    def forward(ctx: Any, pull: Pull, positions: list[int], _: torch.Tensor, *tensors: torch.Tensor) -> Any:
        ctx.question = pull, positions
        ctx.shapes = [(tensor.shape, tensor.dtype) for tensor in tensors[len(positions) :]]
        return tuple(tensor.clone() for tensor in tensors[: len(positions)])

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> Any:
        pull, positions = ctx.question
        chosen = [
            (index, cotangent) for index, cotangent in zip(positions, cotangents, strict=True) if cotangent is not None
        ]
        found = pull([index for index, _ in chosen], [cotangent for _, cotangent in chosen])
        gradients = found if type(found) is list else []
        fitting = [_gradient(gradients, index, form) for index, form in enumerate(ctx.shapes)]
        return None, None, None, *([None] * len(positions)), *fitting


def _gradient(gradients: list[Any], index: int, form: tuple[torch.Size, torch.dtype]) -> torch.Tensor | None:
    gradient = gradients[index] if index < len(gradients) else None
    fits = type(gradient) is torch.Tensor and (gradient.shape, gradient.dtype) == form
    return gradient if fits else None


def _differs(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def _replaced(value: Any, joined: dict[int, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return joined.get(id(value), value)
    if type(value) in (list, tuple):
        return type(value)(_replaced(item, joined) for item in value)
    if type(value) is dict:
        return {key: _replaced(item, joined) for key, item in value.items()}
    return value
