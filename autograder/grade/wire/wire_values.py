"""Values that may be sent between the processes: numbers, text, tensors, arrays and containers of them, encoded as lists.

    to_plain(torch.ones(2))  ->  ["tensor", "float32", [2], b"...", "none"]

No class of a learner's is ever instantiated on the trusted side: what is not in this list cannot be sent.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy
import torch

from autograder.check.subject.call_report import Array, array

DEEPEST = 30


class Unsendable(TypeError):
    """A value of a type that cannot be sent; the message names the type and what works instead."""

    def __init__(self, value: object) -> None:
        kind = type(value).__name__
        super().__init__(
            f"a {kind} cannot leave the submission's own process: return numbers, text, tensors, arrays, or lists, tuples, "
            f"sets and dictionaries of them; or test it with check(...), which calls it there"
        )


def to_plain(value: Any, depth: int = 0) -> Any:
    """Returns the value encoded in lists and scalars; raises Unsendable for anything but exact types of plain data."""
    kind = type(value)
    if depth > DEEPEST:
        raise Unsendable(value)
    if kind in (type(None), bool, float, str, bytes):
        return value
    if kind is int:
        return (
            value
            if -(2**63) <= value < 2**64
            else ["int", str(value) if value.bit_length() < 10_000 else _refuse(value)]
        )
    if kind is complex:
        return ["complex", value.real, value.imag]
    if kind in (list, tuple, set, frozenset, torch.Size):
        return [kind.__name__, *(to_plain(item, depth + 1) for item in value)]
    if kind is dict:
        return ["dict", *([to_plain(key, depth + 1), to_plain(item, depth + 1)] for key, item in value.items())]
    if kind in (torch.Tensor, torch.nn.Parameter):
        return ["tensor", *msgspec.structs.astuple(array(value)), _history(value)]
    if isinstance(value, numpy.generic):
        return ["scalar", value.dtype.str, value.tobytes()] if value.dtype.kind in "biufc" else _refuse(value)
    if kind is numpy.ndarray and value.dtype.kind in "biufc":
        return ["array", value.dtype.str, list(value.shape), value.tobytes()]
    if kind is torch.dtype:
        return ["dtype", str(value).removeprefix("torch.")]
    return _refuse(value)


def from_plain(plain: Any) -> Any:
    """Returns the decoded value; raises ValueError if `plain` is not an encoded value."""
    if not isinstance(plain, list):
        return plain
    try:
        return _READ[plain[0]](*plain[1:])
    except (KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no plain value: {str(error)[:80]}") from None


def tensors(value: Any) -> list[torch.Tensor]:
    """Returns the tensors in plain data, in the order in which `to_plain` encodes them."""
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for item in items for tensor in tensors(item)]


def _refuse(value: object) -> Any:
    raise Unsendable(value)


def _history(tensor: torch.Tensor) -> str:
    return "none" if not tensor.requires_grad else "leaf" if tensor.is_leaf else "result"


def _tensor(dtype: str, shape: list[int], data: bytes, history: str) -> torch.Tensor:
    tensor = Array(dtype, tuple(shape), data).tensor()
    if history == "none" or not tensor.dtype.is_floating_point:
        return tensor
    leaf = tensor.requires_grad_()
    if history == "leaf":
        return leaf
    # It was the result of an operation on the other side, so it may be changed in place here; its gradient arrives at `origin`.
    result = leaf.clone()
    result.origin = leaf  # type: ignore[attr-defined]
    return result


def _ndarray(dtype: str, shape: list[int], data: bytes) -> numpy.ndarray:
    return numpy.frombuffer(bytearray(data), _number(dtype)).reshape(shape)


def _number(dtype: str) -> numpy.dtype:
    found = numpy.dtype(dtype)
    if found.kind not in "biufc":
        raise ValueError(f"{dtype!r} is not a dtype of numbers")
    return found


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"{name!r} is not a dtype of PyTorch")
    return found


_READ: dict[str, Any] = {
    "int": int,
    "complex": complex,
    "list": lambda *items: [from_plain(item) for item in items],
    "tuple": lambda *items: tuple(from_plain(item) for item in items),
    "set": lambda *items: {from_plain(item) for item in items},
    "frozenset": lambda *items: frozenset(from_plain(item) for item in items),
    "Size": lambda *items: torch.Size(items),
    "dict": lambda *pairs: {from_plain(key): from_plain(item) for key, item in pairs},
    "tensor": _tensor,
    "scalar": lambda dtype, data: numpy.frombuffer(data, _number(dtype))[0],
    "array": _ndarray,
    "dtype": _dtype,
}
