"""A sum whose gradients are those of a backward with cotangents, without what PyTorch loads for cotangents."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def weighted_sum(pairs: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """Returns the real scalar whose gradients equal those of `backward` with these cotangents; shapes must be equal.

    Given cotangents, `backward` loads sympy to compare shapes (PyTorch 2.13): 0.4 s of a process's first check.
    """
    with torch.enable_grad():
        return torch.stack([(output * cotangent.conj()).sum().real for output, cotangent in pairs]).sum()
