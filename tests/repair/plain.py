"""The results of a program in plain PyTorch: its gradients, the root of backward, and finite differences; without this package."""

from __future__ import annotations

from dataclasses import dataclass
from unittest import mock

import torch
from torch import Tensor


@dataclass(frozen=True)
class Plain:
    """The results of a text after it ran from top to bottom."""

    gradients: dict[str, list | float]
    losses: list[float]
    values: dict[str, list | float]


def plain(
    text: str,
    function: str | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    moved: tuple[str, int, float] | None = None,
) -> Plain:
    """Run the text and return its results; with `moved`, one number of a leaf is shifted when the leaf is created."""
    losses: list[float] = []
    backward = Tensor.backward

    def noted(self, gradient=None, *args, **kwargs):
        losses.append(float(self.detach().sum()))
        return backward(self, gradient, *args, **kwargs)

    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    space = {"__name__": "plain", "torch": torch, "__moved__": moved}
    try:
        with mock.patch.object(Tensor, "backward", noted):
            exec(compile(shifted(text, moved), "plain", "exec"), space)
            returned = space[function]() if function else {}
    finally:
        torch.set_default_dtype(before)
    tensors = {name: value for name, value in space.items() if isinstance(value, Tensor)}
    leaves = {name: value for name, value in tensors.items() if value.is_leaf and value.grad is not None}
    return Plain(
        {name: leaf.grad.tolist() for name, leaf in leaves.items()}
        | {key: one.tolist() for key, one in returned.items()},
        losses,
        {name: value.tolist() for name, value in tensors.items()},
    )


def shifted(text: str, moved: tuple[str, int, float] | None) -> str:
    """Return the text with a line after the leaf's first assignment that shifts it, invisibly to autograd."""
    if moved is None:
        return text
    name, place, distance = moved
    lines = text.split("\n")
    at = next(number for number, line in enumerate(lines) if line.startswith(f"{name} = "))
    return "\n".join([*lines[: at + 1], f"{name}.data.view(-1)[{place}] += {distance}", *lines[at + 1 :]])


def slopes(text: str, leaf: str, count: int, step: float = 1e-5) -> list[float]:
    """Return the central differences, in float64, of the sum of all losses along each number of a leaf."""

    def loss(place: int, distance: float) -> float:
        return sum(plain(text, dtype=torch.float64, moved=(leaf, place, distance)).losses)

    return [(loss(place, step) - loss(place, -step)) / (2 * step) for place in range(count)]


def flat(value: list | float) -> list[float]:
    """Return nested lists as one."""
    return [number for one in value for number in flat(one)] if isinstance(value, list) else [float(value)]
