"""Two ways to find the right gradient that do not use the recorded graph."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch

# Central differences err by step²·f'''/6 from the formula and by about 1e-16·|f|/step from rounding in float64; the cube
# root of 1e-16 balances the two, and leaves about 1e-10 of the value.
STEP = 6e-6


def clone_on_save() -> AbstractContextManager[None]:
    """Returns a context in which every saved tensor is a copy that no later write changes.

    A backward through a graph made in it gives the gradients of the values that the forward used. It hides the version
    check (`torch.autograd.graph.saved_tensors_hooks`, PyTorch 2.13), so never set it in the run that decides an outcome.
    """
    return torch.autograd.graph.saved_tensors_hooks(lambda saved: saved.detach().clone(), lambda save: save)


def finite_differences(
    function: Callable[..., torch.Tensor], inputs: dict[str, torch.Tensor], *, step: float = STEP
) -> dict[str, torch.Tensor]:
    """Returns the slope of a scalar function along every entry of its inputs, by central differences in float64.

    Args:
        function: called with one keyword for each input, and twice for each entry; must not keep state between calls.
        inputs: the point, by name; never written to, and handed over as fresh float64 copies that require no grad.
        step: how far each entry moves to either side, times its own size where that is above 1.

    Returns:
        A float64 tensor for each input, of its shape.
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
