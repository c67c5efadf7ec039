"""The tensors that one call keeps for backward, found from outside: by writing into each of its tensors and calling backward.

Two observations are made of each tensor. Does backward raise after a write that PyTorch counts (the *version* changed)?
Does the gradient change after a write that PyTorch does not count (another *value*, written through `.data`)?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.autograd.graph import Node, increment_version

from tests.atlas.calls import Call, Run, made

REFUSAL = "modified by an inplace operation"
Gradients = tuple[torch.Tensor | None, ...]


@dataclass(frozen=True)
class Kept:
    """The observation of one tensor of a call.

    Attributes:
        guarded: backward raises after a counted write.
        read: the gradient changes if the tensor has another value; None if no other value could be tried.
    """

    guarded: bool
    read: bool | None


def observed(call: Call, required: Sequence[int]) -> dict[str, Kept]:
    """Return the observation of each tensor of a call, by parameter or output name; empty if no tensor requires grad.

    Args:
        call: the call.
        required: the indexes of its values that require grad.
    """
    run = made(call, required)
    if not run.ends:
        return {}
    names = {name: len(tensors) for name, tensors in run.tensors.items()}
    expected = gradients(run)
    certain = same(expected, gradients(made(call, required)))  # else another gradient says nothing
    return {name: _seen(call, required, name, several, expected, certain) for name, several in names.items()}


def _seen(call: Call, required: Sequence[int], name: str, several: int, expected: Gradients, certain: bool) -> Kept:
    each = [(name, at) for at in range(several)]
    guarded = any(is_refused(call, required, one) for one in each)
    read = [is_read(call, required, one, expected) for one in each] if certain else [None]
    return Kept(guarded, True if True in read else None if None in read else False)


def is_refused(call: Call, required: Sequence[int], place: tuple[str, int]) -> bool:
    """Return whether backward refuses after the version of one tensor moved."""
    run = made(call, required)
    increment_version(run.tensors[place[0]][place[1]])
    try:
        gradients(run)
    except RuntimeError as error:
        return REFUSAL in str(error)
    return False


def is_read(call: Call, required: Sequence[int], place: tuple[str, int], expected: Gradients) -> bool | None:
    """Return whether another value in one tensor changes the gradient or causes an error; None if there is no other value."""
    tried = None
    for write in WRITES:
        run = made(call, required)
        tensor = run.tensors[place[0]][place[1]]
        try:
            if tensor.layout is not torch.strided or not write(tensor.data):
                continue
        except RuntimeError:  # an expanded tensor, whose elements share memory
            continue
        tried = False
        try:
            if not same(expected, gradients(run)):
                return True
        except (RuntimeError, IndexError):
            return True
    return tried


def _write_one(data: torch.Tensor) -> bool:
    """Write NaN everywhere; for indices and the like, write the smallest one, since their order may not matter."""
    if data.dtype == torch.bool:
        return False
    data.fill_(torch.nan if data.is_floating_point() or data.is_complex() else int(data.min()))
    return True


def _write_others(data: torch.Tensor) -> bool:
    """Write values of another sign and size; for indices and the like, write only existing values or 0, since others may crash."""
    if data.dtype == torch.bool:
        data.logical_not_()
    elif data.is_floating_point() or data.is_complex():
        data.mul_(-1.7).sub_(0.3)
    else:
        turned = data.flatten().roll(1).reshape(data.shape)
        data.copy_(turned if not torch.equal(turned, data) else torch.zeros_like(data))
    return True


WRITES: tuple[Callable[[torch.Tensor], bool], ...] = (_write_others, _write_one)
"""NaN comes last: it shows a value that is only multiplied by zero, and crashes some kernels that take it for a coordinate (2.13)."""


def gradients(run: Run) -> Gradients:
    """Return the gradient of each leaf, for the same random gradients of the outputs at each call."""
    generator = torch.Generator().manual_seed(1)
    given = [torch.randn(end.shape, dtype=end.dtype, generator=generator) for end in run.ends]
    given = [one.to_sparse() if end.is_sparse else one for one, end in zip(given, run.ends, strict=True)]
    torch.manual_seed(2)
    return torch.autograd.grad(run.ends, run.leaves, given, allow_unused=True)


def same(some: Gradients, others: Gradients) -> bool:
    """Return whether gradients are equal to the last bit, NaN for NaN."""
    return all(
        (one is None and other is None) or (one is not None and other is not None and _equal(one, other))
        for one, other in zip(some, others, strict=True)
    )


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    one, other = (tensor if tensor.layout is torch.strided else tensor.to_dense() for tensor in (one, other))
    return torch.equal(one.isnan(), other.isnan()) and torch.equal(one.nan_to_num(), other.nan_to_num())


def nodes_of(run: Run) -> list[Node]:
    """Return the nodes of a call's graph, without those that add to a leaf's gradient."""
    waiting, found = [end.grad_fn for end in run.ends], {}
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found and node.name() != "torch::autograd::AccumulateGrad":
            found[node] = None
            waiting.extend(following for following, _ in node.next_functions)
    return list(found)


def saved_by(run: Run) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors that the nodes of a call have saved, each with the name of the attribute."""
    for node in nodes_of(run):
        for attribute in dir(node):
            if attribute.startswith("_saved_"):
                value = getattr(node, attribute)
                for one in value if isinstance(value, (tuple, list)) else (value,):
                    if isinstance(one, torch.Tensor):
                        yield attribute.removeprefix("_saved_"), one
