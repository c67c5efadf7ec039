"""Tensors as plain data: comparison within the accuracy of finite differences, and short texts."""

from __future__ import annotations

import torch

from autograder.check.subject.call_report import Array
from autograder.locale.translations import translated

# Central differences in float64 have a relative error of about 1e-8; a wrong formula differs by much more.
RELATIVE, ABSOLUTE = 1e-5, 1e-6


def same(got: Array, right: Array) -> bool:
    """Return whether both have the same dtype and shape, and values that agree within the accuracy above."""
    return (got.dtype, got.shape) == (right.dtype, right.shape) and close(got, right.tensor())


def close(got: Array, right: torch.Tensor) -> bool:
    """Return whether dtype and shape are the same and the values agree within the accuracy above; nan never agrees."""
    values = got.tensor()
    return (
        values.dtype == right.dtype
        and values.shape == right.shape
        and torch.allclose(values, right, rtol=RELATIVE, atol=ABSOLUTE)
    )


def format_values(values: Array, beside: Array | None = None) -> str:
    """Return a short text: four numbers, starting at the first one that differs from `beside`, then dtype and shape."""
    if values.dtype == "bool" and not values.shape:
        return str(bool(values.tensor()))
    flat = values.tensor().reshape(-1)
    start = _first_difference(flat, beside.tensor().reshape(-1)) if beside and beside.shape == values.shape else 0
    shown = ", ".join(f"{number:.4g}" for number in flat[start : start + 4].tolist())
    before, after = (
        "… " if start else "",
        translated(", … {count} in all", count=flat.numel()) if flat.numel() > 4 else "",
    )
    return f"[{before}{shown}{after}] ({values.dtype}, shape {tuple(values.shape)})"


def _first_difference(got: torch.Tensor, right: torch.Tensor) -> int:
    different = (~torch.isclose(got.double(), right.double(), rtol=RELATIVE, atol=ABSOLUTE)).nonzero()
    return int(different[0]) if len(different) else 0
