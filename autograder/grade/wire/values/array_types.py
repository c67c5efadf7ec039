"""The codecs of NumPy's and PyTorch's types of data."""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy
import torch
from numpy.lib.format import descr_to_dtype, dtype_to_descr

from autograder.check.subject.call_report import DTYPES, Array, array
from autograder.grade.wire.values.codec import Codec, Part, Unsendable

LONGEST_DESCRIPTION = 10_000


def tensors(value: Any) -> list[torch.Tensor]:
    """Returns the tensors in a tensor, list, tuple or dictionary, in order; what stands there twice is visited once."""
    found, seen, waiting = [], set[int](), [value]
    while waiting:
        item = waiting.pop()
        kind = type(item)  # what a stand-in says of its class does not count here
        if issubclass(kind, torch.Tensor):
            found.append(item)
        elif kind in (list, tuple, dict) and id(item) not in seen:
            seen.add(id(item))
            waiting.extend(reversed(item.values() if kind is dict else item))
    return found


def _sizes(shape: Any) -> str:
    return " ".join(map(str, shape))


def _shape(text: str) -> tuple[int, ...]:
    sizes = tuple(map(int, text.split()))
    if min(sizes, default=0) < 0:
        raise ValueError("a size is negative")
    return sizes


def _tensor_parts(tensor: torch.Tensor, part: Part) -> list[Any]:
    if tensor.layout is not torch.strided or tensor.is_meta or tensor.is_quantized:
        raise Unsendable(tensor, f"a tensor of layout {tensor.layout}")
    values = array(tensor)
    history = "none" if not tensor.requires_grad else "leaf" if tensor.is_leaf else "result"
    gradient = tensor.grad if tensor.is_leaf else None
    return [values.dtype, _sizes(values.shape), values.data, history, part(gradient)]


def _tensor(dtype: str, sizes: str, data: bytes, history: str, gradient: torch.Tensor | None) -> torch.Tensor:
    tensor = Array(dtype, _shape(sizes), data).tensor()
    if history == "none" or not (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
        return tensor
    leaf = tensor.requires_grad_()
    if history == "leaf":
        leaf.grad = gradient
        return leaf
    # It was the result of an operation on the other side, so it may be changed in place here; its gradient arrives at `origin`.
    result = leaf.clone()
    result.origin = leaf  # type: ignore[attr-defined]
    return result


def _parameter(dtype: str, sizes: str, data: bytes, history: str, gradient: torch.Tensor | None) -> torch.nn.Parameter:
    values = Array(dtype, _shape(sizes), data).tensor()
    parameter = torch.nn.Parameter(values, requires_grad=history == "leaf")
    parameter.grad = gradient
    return parameter


def _write_tensor(target: torch.Tensor, new: torch.Tensor) -> None:
    if (target.shape, target.dtype) != (new.shape, new.dtype):
        target.data = new.detach()
    elif not torch.equal(target.detach(), new.detach()):
        target.detach().copy_(new.detach())
    if target.is_leaf:
        target.requires_grad_(new.requires_grad)
        target.grad = new.grad if new.is_leaf else None


def _description(dtype: numpy.dtype) -> str:
    if dtype.hasobject or dtype.kind not in "biufcSUMmV":
        raise Unsendable(dtype, f"an array of dtype {dtype}")
    return dtype.str if dtype.names is None and dtype.subdtype is None else repr(dtype_to_descr(dtype))


def _numpy_dtype(text: str) -> numpy.dtype:
    if len(text) > LONGEST_DESCRIPTION:
        raise ValueError("the dtype is too long")
    found = descr_to_dtype(ast.literal_eval(text)) if text.startswith(("[", "(")) else numpy.dtype(text)
    if found.hasobject:
        raise ValueError(f"{text!r} holds objects")
    return found


def _array_parts(value: numpy.ndarray, part: Part) -> list[Any]:
    if value.dtype == object:
        return ["O", _sizes(value.shape), *map(part, value.ravel().tolist())]
    return [_description(value.dtype), _sizes(value.shape), value.tobytes()]


def _array(dtype: str, sizes: str, *data: Any) -> numpy.ndarray:
    shape = _shape(sizes)
    if dtype != "O":
        found = _numpy_dtype(dtype)
        if found.itemsize == 0:
            if math.prod(shape) > LONGEST_DESCRIPTION:
                raise ValueError("too many empty items")
            return numpy.empty(shape, found)
        return numpy.frombuffer(bytearray(data[0]), found).reshape(shape)
    values = numpy.empty(len(data), object)
    for index, item in enumerate(data):
        values[index] = item
    return values.reshape(shape)


def _write_array(target: numpy.ndarray, new: numpy.ndarray) -> None:
    if target.shape != new.shape or target.dtype != new.dtype:
        raise ValueError("an array of the test's has another shape after the call")
    target[...] = new


def _scalar(dtype: str, data: bytes) -> numpy.generic:
    return numpy.frombuffer(data, _numpy_dtype(dtype))[0]


def _torch_dtype(name: str) -> torch.dtype:
    found = getattr(torch, name) if name in DTYPES else None
    if found is None:
        raise ValueError(f"{name!r} is not a dtype of PyTorch")
    return found


def _series_of(kind: type) -> Codec:
    return Codec(
        kind.__name__,
        lambda value, part: [part(item) for item in (value.coef, value.domain, value.window, value.symbol)],
        lambda coefficients, domain, window, symbol: kind(coefficients, domain, window, symbol),
    )


def _masked_parts(value: Any, _: Part) -> list[Any]:
    data, mask = numpy.ma.getdata(value, subok=False), numpy.ma.getmask(value)
    fill = numpy.asarray(value.fill_value, value.dtype).tobytes()
    flags = None if mask is numpy.ma.nomask else mask.tobytes()
    return [_description(value.dtype), _sizes(value.shape), data.tobytes(), flags, fill]


def _masked(dtype: str, sizes: str, data: bytes, flags: bytes | None, fill: bytes) -> Any:
    values = _array(dtype, sizes, data)
    mask_dtype = numpy.ma.make_mask_descr(values.dtype)
    mask = numpy.ma.nomask if flags is None else numpy.frombuffer(flags, mask_dtype).reshape(values.shape)
    return numpy.ma.MaskedArray(values, mask, fill_value=numpy.frombuffer(fill, values.dtype)[0])


def _write_masked(target: Any, new: Any) -> None:
    target[...] = new
    target.mask = new.mask


def _viewed(kind: type) -> Codec:
    return Codec(
        kind.__name__,
        lambda value, part: _array_parts(numpy.ndarray.view(value, numpy.ndarray), part),
        lambda *parts: _array(*parts).view(kind),
        lambda target, new: target.__setitem__(..., new),
    )


def _generator_parts(value: Any, part: Part) -> list[Any]:
    kind = type(value.bit_generator)
    if kind.__name__ not in _BIT_GENERATORS or kind.__module__.partition(".")[0] != "numpy":
        raise Unsendable(value, f"a generator of random numbers from a {kind.__name__}")
    return [kind.__name__, part(value.bit_generator.state)]


def _generator(name: str, state: Any) -> Any:
    if name not in _BIT_GENERATORS:
        raise ValueError(f"{name[:80]!r} is no generator of random numbers")
    found = numpy.random.Generator(getattr(numpy.random, name)(0))
    found.bit_generator.state = state
    return found


def _write_generator(target: Any, new: Any) -> None:
    target.bit_generator.state = new.bit_generator.state


# MT19937 and Philox (NumPy 2), and PyTorch's generators (2.13), read their state at a position that stands in it unchecked.
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "SFC64")
_POLYNOMIALS = tuple(
    getattr(numpy.polynomial, name)
    for name in ("Polynomial", "Chebyshev", "Legendre", "Laguerre", "Hermite", "HermiteE")
)
SCALAR = Codec("scalar", lambda value, _: [_description(value.dtype), value.tobytes()], _scalar)

ARRAYS: dict[type, Codec] = {
    torch.Tensor: Codec("tensor", _tensor_parts, _tensor, _write_tensor),
    torch.nn.Parameter: Codec("Parameter", _tensor_parts, _parameter, _write_tensor),
    torch.Size: Codec("Size", lambda value, _: [_sizes(value)], lambda sizes: torch.Size(_shape(sizes))),
    torch.dtype: Codec("torch.dtype", lambda value, _: [str(value).removeprefix("torch.")], _torch_dtype),
    torch.device: Codec("device", lambda value, _: [str(value)], torch.device),
    numpy.ndarray: Codec("array", _array_parts, _array, _write_array),
    numpy.random.Generator: Codec("numpy.Generator", _generator_parts, _generator, _write_generator),
    numpy.ma.MaskedArray: Codec("MaskedArray", _masked_parts, _masked, _write_masked),
    **{kind: _viewed(kind) for kind in (numpy.matrix, numpy.recarray)},
    numpy.poly1d: Codec(
        "poly1d", lambda value, part: [part(value.coeffs), value.variable], lambda c, v: numpy.poly1d(c, variable=v)
    ),
    **{kind: _series_of(kind) for kind in _POLYNOMIALS},
}


def array_codec(value: object) -> Codec | None:
    """Returns the codec of a value whose type is one of NumPy's families, such as all scalars or all dtypes."""
    if issubclass(type(value), numpy.generic) and type(value).__module__ == "numpy":
        return SCALAR
    if issubclass(type(value), numpy.dtype):
        return DTYPE
    return None


DTYPE = Codec("numpy.dtype", lambda value, _: ["O" if value.kind == "O" else _description(value)],
              lambda text: numpy.dtype(object) if text == "O" else _numpy_dtype(text))  # fmt: skip
