"""Other inputs of the kind that a test used: numbers moved, items moved and in another order, letters in another order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch

from autograder.grade.rehearsal.play.comparison import copied

DRAWS = 10  # for each call that was recorded


def variations(arguments: Any, draws: int = DRAWS) -> Iterator[Any]:
    """Yields variations of a call's arguments, the same ones each time."""
    draw = random.Random(0)
    for _ in range(draws):
        yield varied(arguments, draw)


def varied(value: Any, draw: random.Random) -> Any:
    """Returns another value of the same type and structure; a copy of one of unknown type."""
    if isinstance(value, bool):
        return draw.random() < 0.5
    if isinstance(value, int):
        return type(value)(draw.choice((value - 2, value - 1, value + 1, value + 2, value + 3, 0, -value)))
    if isinstance(value, float):
        return type(value)(draw.choice((1, 1, 1, -1)) * value * draw.uniform(0.5, 1.5) + draw.uniform(0, 0.1))
    if isinstance(value, str):
        return "".join(draw.sample(value, len(value)))
    if type(value) in (list, tuple):
        items = [varied(item, draw) for item in value]
        return type(value)(items)
    if type(value) is dict:
        return {key: varied(item, draw) for key, item in value.items()}
    if isinstance(value, torch.Tensor):
        return _varied_tensor(value, draw)
    if getattr(getattr(value, "dtype", None), "kind", "") == "f":
        return value * draw.uniform(0.5, 1.5) + draw.uniform(0, 0.1)
    return copied(value)


def _varied_tensor(value: torch.Tensor, draw: random.Random) -> torch.Tensor:
    changed = value.detach().clone()
    if changed.is_floating_point():
        changed = changed * draw.uniform(0.5, 1.5) + draw.uniform(0, 0.1)
    elif changed.numel():
        changed = changed.flatten()[torch.tensor(draw.sample(range(changed.numel()), changed.numel()))].reshape(
            value.shape
        )
    leaf = changed.requires_grad_(value.requires_grad)
    return leaf if value.is_leaf else leaf.clone()
