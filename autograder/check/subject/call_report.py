"""The data that a check and its subject exchange. Decoding runs no code, so an untrusted process may send a report."""

from __future__ import annotations

from typing import Literal

import msgspec
import torch

_WHOLE = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
_FLOATING = ("float16", "float32", "float64", "bfloat16", "complex32", "complex64", "complex128")
_EIGHT_BITS = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
DTYPES = frozenset(("bool", *_WHOLE, *_FLOATING, *_EIGHT_BITS))
"""The dtypes of an array, each a whole number of bytes. PyTorch (2.13) aborts the process on bytes interpreted as `qint8`."""


class Array(msgspec.Struct, frozen=True):
    """A tensor's values without the tensor: dtype ("float64"), shape in elements, and the bytes in C order."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return len(self.data)

    def tensor(self) -> torch.Tensor:
        """Return the values as a new tensor that owns its memory and does not require grad.

        Raises:
            ValueError: the dtype is not allowed, or the bytes do not fit the dtype and the shape.
        """
        dtype = getattr(torch, self.dtype, None) if self.dtype in DTYPES else None
        if dtype is None:
            raise ValueError(f"{self.dtype[:40]!r} is not a dtype that an array can have")
        flat = torch.frombuffer(bytearray(self.data), dtype=dtype) if self.data else torch.empty(0, dtype=dtype)
        if flat.numel() != torch.Size(self.shape).numel():
            raise ValueError(f"{flat.numel()} values do not fill the shape {self.shape}")
        return flat.reshape(self.shape).clone()  # not a view: PyTorch's errors would mention "a view of a leaf"


def array(tensor: torch.Tensor) -> Array:
    """Return the values of a dense tensor of any dtype, with lazy conjugation resolved."""
    # Not `contiguous()`: it keeps the stride 0 of an expanded single element, which cannot be viewed as bytes.
    values = tensor.detach().resolve_conj().resolve_neg().cpu().clone(memory_format=torch.contiguous_format)
    data = bytes(values.reshape(-1).view(torch.uint8).numpy()) if values.numel() else b""
    return Array(str(values.dtype).removeprefix("torch."), tuple(values.shape), data)


Kind = Literal["leaf", "result", "frozen", "constant"]


class Argument(msgspec.Struct, frozen=True):
    """One input of a call: a leaf, the result of an operation on a leaf, a leaf that must not get a gradient, or a constant."""

    kind: Kind
    values: Array


class Call(msgspec.Struct, frozen=True):
    """A request to call the student's function, or to build the student's module and call it, with these inputs."""

    arguments: dict[str, Argument]  # the tensors by parameter name, in order; each call gets new memory
    # numbers and strings that are passed unchanged; for a module, to its constructor
    options: dict[str, int | float | bool | str] = {}
    parameters: dict[str, Array] = {}  # for a module, the values to load into its parameters before the call
    # by the output's name, the gradient that backward starts from; if empty, backward is not run
    cotangents: dict[str, Array] = {}
    # by the argument's name, the gradient that backward starts from in the tensor that the caller passed in
    memory_cotangents: dict[str, Array] = {}
    # if False, only values are computed and no tensor requires grad, so every in-place modification is allowed
    differentiate: bool = True
    training: bool = True  # if False, a module is called in evaluation mode
    measure: bool = False  # whether to count the allocated bytes; the other results of such a call are not used


class CallProblem(msgspec.Struct, frozen=True):
    """An exception of the student's code or of its backward; `line` is 1-based within the answer's cell."""

    phase: Literal["forward", "backward"]
    type: str
    message: str
    line: int | None = None
    text: str = ""


class Allocation(msgspec.Struct, frozen=True):
    """Memory that a call allocated: its size in bytes, and the line of the answer that allocated it, if any."""

    nbytes: int
    line: int | None = None
    text: str = ""


class Report(msgspec.Struct, frozen=True):
    """The results of a call."""

    outputs: dict[str, Array] = {}  # returned tensors and numbers, by path: "value", "value[0]", "value['loss']"
    others: dict[str, str] = {}  # the type names of other returned objects, by path
    after: dict[str, Array] = {}  # the memory of each tensor argument after the call
    # the gradient of each leaf, result and parameter; None if it has no gradient
    gradients: dict[str, Array | None] = {}
    parameters: tuple[str, ...] = ()  # the names of a module's parameters
    allocated: tuple[Allocation, ...] | None = None  # the new tensors of the call, if `measure` was set. Only evidence
    # the answer's source without comments and docstrings, None if it could not be read. Only evidence
    code: str | None = None
    words: tuple[str, ...] = ()  # every name and attribute in that source. Only evidence
    problem: CallProblem | None = None  # the exception that ended the call, if any


class ProgramText(msgspec.Struct, frozen=True):
    """The result of running and recording a student's program without arguments. Only evidence: it comes from the student's process."""

    outcome: str  # one of the four outcomes; "" if the program was stopped at a time limit
    error: str  # the exception's type and message, or the time limit; "" if no exception was raised
    words: tuple[str, ...]  # every name and attribute in its code
    code: str | None  # its normal form, None if the source could not be read
    line: int | None = None  # the line that ran at the time limit, 1-based, and its text
    text: str = ""
