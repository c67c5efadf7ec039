"""By which names PyTorch's documentation calls the arguments of an operation."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.overrides import get_testing_overrides

RECEIVER = ("self", "x", "inp", "a")
"""The names that a method, a schema or a wrapper of op_db uses for the parameter that the documentation calls `input`."""


def parameter_names(op: Any, values: Sequence[object]) -> list[str]:
    """Return a name for each positional argument of one call of an operation of op_db.

    Args:
        op: an `OpInfo` of `torch.testing._internal`.
        values: the arguments, the first of which op_db calls the input.
    """
    for names in _signatures(op, values):
        if len(names) >= len(values):
            return ["input" if name in RECEIVER and not at else name for at, name in enumerate(names[: len(values)])]
    return ["input", *(f"argument {at}" for at in range(1, len(values)))]


def _signatures(op: Any, values: Sequence[object]) -> Iterator[list[str]]:
    public = _public(op.name)
    stand_ins = [_positional(one) for one in map(_overridable().get, (op.op, public)) if one]
    schemas = [[one.name for one in schema] for schema in _schemas(op) if _fit(schema, values)]
    if (
        inspect.isfunction(op.op) and op.op is not public
    ):  # a wrapper of op_db's own, which may take them in another order
        yield _positional(op.op)
    # A function written in Python has parameters of its own; of a built-in one torch.overrides tells old names, and no overloads.
    yield from [*stand_ins, *schemas] if inspect.isfunction(public) else [*schemas, *stand_ins]
    if inspect.isfunction(public):
        yield _positional(public)


@functools.cache
def _overridable() -> dict[Callable, Callable]:
    """Return for each function that `__torch_function__` meets a lambda with its signature; documented in torch.overrides (2.13)."""
    return get_testing_overrides()


def _public(name: str) -> Callable | None:
    """Return the documented name of a parameter, given its name in op_db."""
    for home in (torch, torch.Tensor):
        try:
            return operator.attrgetter(name)(home)
        except AttributeError:
            continue
    return None


def _positional(function: Callable) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if one.kind in kinds and one.name != "out"]


def _schemas(op: Any) -> list[Any]:
    if isinstance(op.op, torch._ops.OpOverload):
        return [op.op._schema.arguments]
    packet = op.op if isinstance(op.op, torch._ops.OpOverloadPacket) else None
    packet = packet or getattr(torch.ops.aten, op.aten_name or op.name.rpartition(".")[2], None)
    return [getattr(packet, name)._schema.arguments for name in packet.overloads()] if packet is not None else []


def _fit(schema: Sequence[Any], values: Sequence[object]) -> bool:
    return len(schema) >= len(values) and all(
        value is None or ("Tensor" in str(argument.type)) == _has_tensor(value)
        for argument, value in zip(schema, values, strict=False)
    )


def _has_tensor(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_has_tensor, value))
    return isinstance(value, torch.Tensor)
