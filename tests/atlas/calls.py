"""Calls of an operation, taken from PyTorch's own test samples (`op_db` of `torch.testing._internal`)."""

from __future__ import annotations

import functools
import inspect
import random
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from tests.atlas.parameter_names import parameter_names

MOST_CALLS = 8
"""The maximum number of observed calls of one dtype, which are of different kinds if possible."""
MOST_ELEMENTS = 2000
PYTHON_NUMBER = 2.0
REAL = (torch.float64, torch.float32)
COMPLEX = (torch.complex128, torch.complex64)


@dataclass(frozen=True)
class Call:
    """One call, which can be repeated with fresh copies of its arguments.

    Attributes:
        function: the called function.
        values: positional arguments, then the values of keyword arguments, flattened; tensors are copied for each run.
        names: the parameter name of each of `values`.
        structure: restores the arguments from `values`.
        differentiable: the indexes of `values` that may require grad.
        finish: function of op_db that is applied to the outputs before their gradient is computed.
        in_place: whether the function writes into its first argument.
    """

    function: Callable
    values: tuple[Any, ...]
    names: tuple[str, ...]
    structure: Any
    differentiable: tuple[int, ...]
    finish: Callable[[Any], Any]
    in_place: bool

    @property
    def tensors(self) -> list[int]:
        """The places in `values` of tensors."""
        return [at for at, value in enumerate(self.values) if isinstance(value, torch.Tensor)]

    def of(self, name: str) -> list[torch.Tensor]:
        """Return the tensors of one parameter."""
        return [self.values[at] for at in self.tensors if self.names[at] == name]


@functools.cache
def operations() -> dict[str, Any]:
    """Return PyTorch's own descriptions of its differentiable operations by name and form, such as "max (binary)"."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return {key_of(op): op for op in op_db if op.supports_autograd}


def key_of(op: Any) -> str:
    """Return the name and form of an operation."""
    return f"{op.name} ({op.variant_test_name})" if op.variant_test_name else op.name


def calls_of(op: Any, *, in_place: bool = False) -> list[Call]:
    """Return calls of an operation with real arguments, and with complex ones if it supports them; each run returns the same calls.

    Raises:
        NotImplementedError: the operation does not support a floating-point dtype on the CPU.
    """
    function = in_place_form(op)[1] if in_place else op.op
    if function is None:
        return []
    dtypes = [next((one for one in kinds if op.supports_dtype(one, "cpu")), None) for kinds in (REAL, COMPLEX)]
    if not any(dtypes):
        raise NotImplementedError("no floating-point dtype on the CPU")
    return [call for dtype in dtypes if dtype for call in _chosen(_sampled(op, function, dtype, in_place))]


def _sampled(op: Any, function: Callable, dtype: torch.dtype, in_place: bool) -> Iterator[Call]:
    seed = zlib.crc32(key_of(op).encode())
    torch.manual_seed(seed)
    random.seed(seed)
    for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=True)):
        yield _call(op, function, sample, in_place)
        if number == 0 and getattr(op, "supports_rhs_python_scalar", False) and len(sample.args) == 1:
            yield _call(op, function, type(sample)(sample.input, args=(PYTHON_NUMBER,), kwargs=sample.kwargs), in_place)


def in_place_form(op: Any) -> tuple[str, Callable | None]:
    """Return the name and the function of the in-place form of an operation; "" and None if it has none."""
    short = f"{op.name.rpartition('.')[2]}_"
    given = op.inplace_variant
    if (name := getattr(given, "__name__", "<lambda>")) != "<lambda>":
        return name, given
    functional = getattr(torch.nn.functional, short[:-1], None)
    if op.name.startswith("nn.functional.") and inspect.isfunction(functional) and "inplace" in _parameters(functional):
        return f"{short[:-1]}(inplace=True)", functools.partial(op.op, inplace=True)
    return (short, found) if (found := getattr(torch.Tensor, short, None)) else ("", None)


def _parameters(function: Callable) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


def _call(op: Any, function: Callable, sample: Any, in_place: bool) -> Call:
    positional = (sample.input, *sample.args)
    names = [*parameter_names(op, positional), *sample.kwargs]
    counts = [len(tree_flatten(value)[0]) for value in (*positional, *sample.kwargs.values())]
    values, structure = tree_flatten((positional, sample.kwargs))
    return Call(
        function,
        tuple(values),
        tuple(name for name, count in zip(names, counts, strict=True) for _ in range(count)),
        structure,
        tuple(at for at, value in enumerate(values) if isinstance(value, torch.Tensor) and value.requires_grad),
        sample.output_process_fn_grad or (lambda output: output),
        in_place,
    )


def _chosen(calls: Iterator[Call]) -> list[Call]:
    """Return calls of different forms first, then of different kinds, then others.

    Calls with empty tensors are left out, and calls with large tensors if there are others.
    """
    filled = [call for call in calls if call.differentiable and all(call.values[at].numel() for at in call.tensors)]
    usable = [call for call in filled if _is_small(call)] or filled
    firsts = list({_form(call): call for call in reversed(usable)}.values())[::-1]
    kinds = list({_kind(call): call for call in reversed(usable)}.values())[::-1]
    chosen = dict.fromkeys(map(id, [*_spread(firsts, MOST_CALLS), *_spread(kinds, MOST_CALLS), *usable]))
    by_number = {id(call): call for call in usable}
    return [by_number[number] for number in chosen][:MOST_CALLS]


def _is_small(call: Call) -> bool:
    return all(call.values[at].numel() <= MOST_ELEMENTS for at in call.tensors)


def _form(call: Call) -> str:
    """Return which parameters are given, and which of them as tensors."""
    return repr([(name, isinstance(value, torch.Tensor)) for name, value in zip(call.names, call.values, strict=True)])


def _kind(call: Call) -> str:
    """Return other properties that distinguish calls: numbers of dimensions, and values that are not tensors."""
    shown = (value.dim() if isinstance(value, torch.Tensor) else value for value in call.values)
    return repr([*zip(call.names, shown, strict=True)])


def _spread(items: Sequence[Call], most: int) -> list[Call]:
    return [items[at * len(items) // most] for at in range(most)] if len(items) > most else list(items)


@dataclass(frozen=True)
class Run:
    """A call that was made.

    Attributes:
        leaves: the tensors whose gradient is computed.
        ends: the outputs that have a gradient.
        tensors: the tensors that could be written into afterwards, by parameter or output name.
    """

    leaves: list[torch.Tensor]
    ends: list[torch.Tensor]
    tensors: dict[str, list[torch.Tensor]]


def made(call: Call, required: Sequence[int]) -> Run:
    """Make a call from fresh copies, of which those at the places `required` require grad."""
    values = list(call.values)
    for at in call.tensors:
        values[at] = values[at].detach().clone().requires_grad_(at in required)
    leaves = [values[at] for at in required]
    if call.in_place and 0 in required:
        values[0] = values[0].clone()  # a leaf that requires grad cannot be written in place
    positional, keywords = tree_unflatten(values, call.structure)
    torch.manual_seed(0)
    output = call.function(*positional, **keywords)
    ends = [one for one in tree_leaves(call.finish(output)) if isinstance(one, torch.Tensor) and one.requires_grad]
    return Run(leaves, ends, _tensors(call, values, output))


def _tensors(call: Call, values: list[Any], output: Any) -> dict[str, list[torch.Tensor]]:
    found: dict[str, list[torch.Tensor]] = {}
    for at in call.tensors:
        if not (call.in_place and at == 0):  # there the output is the input
            found.setdefault(call.names[at], []).append(values[at])
    for name, one in _named_outputs(output):
        name = "input" if call.in_place else "result" if name in call.names else name
        found.setdefault(name, []).append(one)
    return found


def _named_outputs(output: Any) -> Iterator[tuple[str, torch.Tensor]]:
    several = isinstance(output, (tuple, list))
    parts = output if several else [output]
    names = getattr(type(output), "__match_args__", ())  # of torch.return_types and the like
    for at, part in enumerate(parts):
        name = names[at] if at < len(names) else f"output {at}" if len(parts) < 4 else "outputs"
        for one in tree_leaves(part):
            if isinstance(one, torch.Tensor):
                yield (name if several else "output"), one
