"""Encoding of arrays, tensors and other data of NumPy and PyTorch as plain values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy
from numpy import ma
from numpy.lib.format import descr_to_dtype, dtype_to_descr

from autograder.grade.wire.plain_values import MOST_ITEMS, Codec, NotPlain

if TYPE_CHECKING:
    import torch

LONGEST_DTYPE = 10_000  # characters of a description


def _dtype_parts(dtype: numpy.dtype) -> Any:
    if dtype.kind not in "biufcSUMmV" or dtype.hasobject:
        raise NotPlain(f"an array of dtype {dtype!s:.80}")
    if dtype.names is None and dtype.subdtype is None:
        return dtype.str
    try:
        parts = dtype_to_descr(dtype)
    except ValueError:
        raise NotPlain("an array of overlapping fields") from None
    if len(repr(parts)) > LONGEST_DTYPE:
        raise NotPlain("an array of too many fields")
    return parts


def _dtype(parts: Any) -> numpy.dtype:
    dtype = descr_to_dtype(parts) if len(repr(parts)) <= LONGEST_DTYPE else None
    if dtype is None or dtype.hasobject:
        raise ValueError
    return dtype


def _array_parts(value: numpy.ndarray) -> list[Any]:
    if value.dtype == object:
        return ["O", list(value.shape), value.ravel().tolist()]
    return [_dtype_parts(value.dtype), list(value.shape), value.tobytes()]


def _array(parts: Any, shape: list[int], data: Any) -> numpy.ndarray:
    if parts == "O":
        values = numpy.empty(len(data), object)
        for position, item in enumerate(data):
            values[position] = item
        return values.reshape(shape)
    dtype = _dtype(parts)
    if dtype.itemsize:
        return numpy.frombuffer(bytearray(memoryview(data)), dtype).reshape(shape)
    if math.prod(shape) > MOST_ITEMS:
        raise ValueError
    return numpy.zeros(shape, dtype)


def _masked_parts(value: Any) -> list[Any]:
    mask = None if ma.getmask(value) is ma.nomask else ma.getmask(value)
    return [ma.getdata(value, subok=False), mask, numpy.asarray(value.fill_value, value.dtype)]


def numpy_codecs() -> dict[type, Codec]:
    """Return the forms of arrays and other data of NumPy."""
    series = [
        getattr(numpy.polynomial, name) for name in ("Polynomial", "Chebyshev", "Legendre", "Laguerre", "Hermite")
    ]
    constant = numpy.ma.masked
    return {
        numpy.ndarray: Codec("numpy.array", _array_parts, _array),
        numpy.generic: Codec(
            "numpy.scalar", lambda value: _array_parts(numpy.asarray(value)), lambda *p: _array(*p)[()]
        ),
        numpy.record: Codec(
            "numpy.record", lambda value: [numpy.asarray(value).reshape(1)], lambda a: a.view(numpy.recarray)[0]
        ),
        numpy.dtype: Codec(
            "numpy.dtype",
            lambda value: ["O" if value.hasobject else _dtype_parts(value)],
            lambda parts: numpy.dtype(object) if parts == "O" else _dtype(parts),
        ),
        numpy.matrix: Codec("numpy.matrix", lambda value: [numpy.asarray(value)], numpy.asmatrix),
        numpy.recarray: Codec("numpy.recarray", lambda v: [v.view(numpy.ndarray)], lambda a: a.view(numpy.recarray)),
        ma.MaskedArray: Codec(
            "numpy.masked",
            _masked_parts,
            lambda data, mask, fill: ma.MaskedArray(data, ma.nomask if mask is None else mask, fill_value=fill[()]),
        ),
        type(constant): Codec("numpy.constant", lambda value: [], lambda: constant),
        numpy.ufunc: Codec("numpy.ufunc", lambda value: [value.__name__], _ufunc),
        numpy.poly1d: Codec(
            "numpy.poly1d", lambda v: [v.coeffs, v.variable], lambda c, v: numpy.poly1d(c, variable=v), True
        ),
        **{
            kind: Codec(f"numpy.{kind.__name__}", lambda v: [v.coef, v.domain, v.window, v.symbol], kind, True)
            for kind in series
        },
    }


def _ufunc(name: str) -> Any:
    if type(function := getattr(numpy, name)) is not numpy.ufunc:
        raise ValueError
    return function


def _tensor_parts(value: torch.Tensor) -> list[Any]:
    import torch

    from autograder.check.subject.call_report import DTYPES, array

    if value.layout is not torch.strided or value.is_meta or str(value.dtype).removeprefix("torch.") not in DTYPES:
        raise NotPlain(f"a tensor of layout {value.layout} and type {value.dtype}")
    graph = "none" if not value.requires_grad else "leaf" if value.is_leaf else "result"
    values = array(value)
    return [values.dtype, list(values.shape), values.data, graph, value.grad if value.is_leaf else None]


def _tensor(dtype: str, shape: list[int], data: bytes, graph: str, gradient: Any) -> torch.Tensor:
    """Return the tensor. If it was computed from other tensors, its graph ends at its values, and a backward pass raises."""
    import torch

    from autograder.check.subject.call_report import Array

    leaf = Array(dtype, tuple(shape), memoryview(data)).tensor()  # type: ignore[arg-type]
    if graph == "none":
        return leaf
    leaf.requires_grad_()
    if graph == "leaf":
        leaf.grad = gradient
        return leaf
    with torch.enable_grad():
        result = leaf.clone()
    result.register_hook(_refuse_backward)
    return result


def _refuse_backward(gradient: torch.Tensor) -> None:
    raise NotPlain("the graph of a tensor that another process computed")


def _parameter(*parts: Any) -> torch.nn.Parameter:
    import torch

    values = _tensor(*parts)
    parameter = torch.nn.Parameter(values.detach(), requires_grad=values.requires_grad)
    parameter.grad = values.grad
    return parameter


def torch_codecs() -> dict[type, Codec]:
    """Return the forms of tensors and other data of PyTorch."""
    import torch

    from autograder.check.subject.call_report import DTYPES

    dtypes = {name: getattr(torch, name) for name in DTYPES if hasattr(torch, name)}
    results = [kind for kind in vars(torch.return_types).values() if isinstance(kind, type) and issubclass(kind, tuple)]
    return {
        torch.Tensor: Codec("torch.tensor", _tensor_parts, _tensor),
        torch.nn.Parameter: Codec("torch.parameter", _tensor_parts, _parameter),
        torch.Size: Codec("torch.Size", list, lambda *sizes: torch.Size(sizes)),
        torch.dtype: Codec("torch.dtype", lambda value: [str(value).removeprefix("torch.")], dtypes.__getitem__),
        torch.device: Codec("torch.device", lambda value: [str(value)], torch.device),
        **{
            kind: Codec(f"torch.return_types.{kind.__name__}", list, lambda *items, kind=kind: kind(items))
            for kind in results
        },
    }
