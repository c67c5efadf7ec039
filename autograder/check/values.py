"""Tensors as plain data: compared within the accuracy of finite differences, and as short texts."""

from __future__ import annotations

import torch

from autograder.check.subject.call_report import Array
from autograder.locale.translations import translated

# Central differences in float64 are good to about 1e-8 of the value; a wrong formula is off by far more.
RELATIVE, ABSOLUTE = 1e-5, 1e-6


def same(got: Array, right: Array) -> bool:
    """Returns whether both have the same dtype, shape and, within the accuracy above, values."""
    return (got.dtype, got.shape) == (right.dtype, right.shape) and close(got, right.tensor())


def close(got: Array, right: torch.Tensor) -> bool:
    """Returns whether the values agree within the accuracy above, in the same dtype and shape; nan agrees with nothing."""
    values = got.tensor()
    return (
        values.dtype == right.dtype
        and values.shape == right.shape
        and torch.allclose(values, right, rtol=RELATIVE, atol=ABSOLUTE)
    )


def format_values(values: Array, beside: Array | None = None) -> str:
    """Returns a short text: four numbers, starting at the first that differs from `beside`, then dtype and shape."""
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
