"""Two methods to compute correct gradients without the recorded graph."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch

# Central differences have a truncation error of step²·f'''/6 and a rounding error of about 1e-16·|f|/step in float64.
# The cube root of 1e-16 balances the two, with an error of about 1e-10 of the value.
STEP = 6e-6


def clone_on_save() -> AbstractContextManager[None]:
    """Return a context in which every saved tensor is a copy that later in-place modifications do not change.

    A backward through a graph created in this context gives the gradients for the values of the forward. The context
    disables the version check (`torch.autograd.graph.saved_tensors_hooks`, PyTorch 2.13), so do not use it in the run
    that determines an outcome.
    """
    return torch.autograd.graph.saved_tensors_hooks(lambda saved: saved.detach().clone(), lambda save: save)


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
    return {name: _slopes(function, point, name, step) for name in point}


def _slopes(
    function: Callable[..., torch.Tensor], point: dict[str, torch.Tensor], name: str, step: float
) -> torch.Tensor:
    def value(index: int, distance: float) -> float:
        moved = {key: tensor.clone() for key, tensor in point.items()}
        moved[name].view(-1)[index] += distance
        return float(function(**moved))

    slopes = torch.empty_like(point[name], memory_format=torch.contiguous_format)
    for index, at in enumerate(point[name].reshape(-1).tolist()):
        distance = step * max(1.0, abs(at))
        slopes.view(-1)[index] = (value(index, distance) - value(index, -distance)) / (2 * distance)
    return slopes
