"""A sum whose gradients equal those of a backward with cotangents."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def weighted_sum(pairs: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the real scalar whose gradients equal those of `backward` with these cotangents. Shapes must be equal.

    For cotangents, `backward` compares shapes and imports sympy for that (PyTorch 2.13), which adds 0.4 s to the first
    check of a process.
    """
    with torch.enable_grad():
        return torch.stack([(output * cotangent.conj()).sum().real for output, cotangent in pairs]).sum()
