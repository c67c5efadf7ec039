"""What a check and its subject exchange: plain data in, plain data out.

Decoding it cannot run code, so a report may come from an untrusted process.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import torch

_WHOLE = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
_FLOATING = ("float16", "float32", "float64", "bfloat16", "complex32", "complex64", "complex128")
_EIGHT_BITS = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
DTYPES = frozenset(("bool", *_WHOLE, *_FLOATING, *_EIGHT_BITS))
"""What an array may hold: numbers of whole bytes. PyTorch (2.13) ends the process for bytes that are said to be `qint8`."""


class Array(msgspec.Struct, frozen=True):
    """A tensor's values, without the tensor: dtype ("float64"), shape in elements, and the bytes in C order."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return len(self.data)

    def tensor(self) -> torch.Tensor:
        """Returns the values as a new tensor that owns its memory and requires no grad.

        Raises:
            ValueError: the bytes do not fit the dtype and the shape.
        """
        dtype = getattr(torch, self.dtype, None) if self.dtype in DTYPES else None
        if dtype is None:
            raise ValueError(f"{self.dtype[:40]!r} is no dtype that an array can have")
        flat = torch.frombuffer(bytearray(self.data), dtype=dtype) if self.data else torch.empty(0, dtype=dtype)
        if flat.numel() != torch.Size(self.shape).numel():
            raise ValueError(f"{flat.numel()} values do not fill the shape {self.shape}")
        return flat.reshape(self.shape).clone()  # not a view: PyTorch's errors would mention "a view of a leaf"


def array(tensor: torch.Tensor) -> Array:
    """Returns the tensor's values now; dense CPU tensors of any dtype, lazy conjugation resolved."""
    # Not `contiguous()`: it leaves a single element of stride 0, an expanded number, as it is, which has no view as bytes.
    values = tensor.detach().resolve_conj().resolve_neg().cpu().clone(memory_format=torch.contiguous_format)
    data = bytes(values.reshape(-1).view(torch.uint8).numpy()) if values.numel() else b""
    return Array(str(values.dtype).removeprefix("torch."), tuple(values.shape), data)


Kind = Literal["leaf", "result", "frozen", "constant"]


class Argument(msgspec.Struct, frozen=True):
    """One input of a call: a leaf, the result of an operation on one, a leaf that must get no gradient, or a constant."""

    kind: Kind
    values: Array


class Call(msgspec.Struct, frozen=True):
    """A request: call the learner's function, or build the learner's module and call it, with these inputs.

    Attributes:
        arguments: by the parameter's name, in order; tensors get fresh memory at every call.
        options: numbers and strings passed as they are; for a module, to its constructor.
        parameters: for a module, the values to load into it before the call.
        cotangents: by the output's name, the gradient that backward starts from; if empty, backward is not run.
        memory_cotangents: by the argument's name, the gradient that backward starts from in the tensor that the caller passed in.
        differentiate: False asks for values only; nothing requires grad then, so every in-place write is allowed.
        training: False calls a module in its evaluation mode.
        measure: count the bytes that the call allocates. The other results of such a call are not used.
    """

    arguments: dict[str, Argument]
    options: dict[str, int | float | bool | str] = {}
    parameters: dict[str, Array] = {}
    cotangents: dict[str, Array] = {}
    memory_cotangents: dict[str, Array] = {}
    differentiate: bool = True
    training: bool = True
    measure: bool = False


class CallProblem(msgspec.Struct, frozen=True):
    """An exception of the learner's code, or of PyTorch's in its backward; `line` is 1-based within the answer's cell."""

    phase: Literal["forward", "backward"]
    type: str
    message: str
    line: int | None = None
    text: str = ""


class Allocation(msgspec.Struct, frozen=True):
    """New memory of a call: its size in bytes, and the line of the answer that made it, None where none did."""

    nbytes: int
    line: int | None = None
    text: str = ""


class Report(msgspec.Struct, frozen=True):
    """What a call did.

    Attributes:
        outputs: tensors and numbers returned, by path: "value", "value[0]", "value['loss']".
        others: what else was returned, by path, as the name of its type.
        after: each tensor argument's memory after the call.
        gradients: of each leaf, result and parameter; None where no gradient arrived.
        parameters: the names of a module's parameters.
        shared: pairs of output and argument that share memory. Evidence only: the learner's process says so.
        allocated: the new tensors of the call, where they were counted. Evidence only.
        code: the answer's text without comments and docstrings, None where it could not be read. Evidence only.
        words: every name and attribute that it uses. Evidence only.
    """

    outputs: dict[str, Array] = {}
    others: dict[str, str] = {}
    after: dict[str, Array] = {}
    gradients: dict[str, Array | None] = {}
    parameters: tuple[str, ...] = ()
    shared: tuple[tuple[str, str], ...] = ()
    allocated: tuple[Allocation, ...] | None = None
    code: str | None = None
    words: tuple[str, ...] = ()
    problem: CallProblem | None = None


class ProgramText(msgspec.Struct, frozen=True):
    """The result of running and recording a learner's program without arguments. Evidence only.

    Attributes:
        outcome: one of the four outcomes.
        error: the exception's type and message, "" where none was raised.
        words: every name and attribute that its code uses.
        code: its normal form, None where it could not be read.
    """

    outcome: str
    error: str
    words: tuple[str, ...]
    code: str | None
