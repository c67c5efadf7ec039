"""Run a program with the in-place modifications that PyTorch forbids, of leaves and of views from multi-output functions."""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode

from autograder.errors import message_of
from autograder.tape.internals.tensor_fields import is_view
from autograder.tape.run.function_mode import tensors
from autograder.tape.run.graph_walk import leaves_below, nodes_below

REFUSED = "leaf Variable that requires grad is being used in an in-place operation"  # PyTorch 2.13 and 2.15
FEW = 8  # number of operations in a moving average of two parameters


class PermittedLeafWrites(TorchFunctionMode):
    """A function mode that executes the in-place operations on leaves which PyTorch forbids.

    If the new value itself requires grad, it is not written under `no_grad`, because its graph would be lost and with
    it the intended computation. A leaf that is not a parameter is first replaced by a copy that has a `grad_fn`. For a
    parameter (as in the inner step of MAML), the error is raised.
    """

    def __torch_function__(self, func, _types, args=(), kwargs=None):
        try:
            return func(*args, **(kwargs or {}))
        except RuntimeError as error:
            if REFUSED not in message_of(error):
                raise
            written, *others = tensors([args, kwargs or {}])
            # `view[0] += 1` ends with an assignment of the view to itself, which adds no new input to its graph.
            needing = [one for one in others if one.requires_grad and not shares_memory(written, one)]
            if needing and not is_average(written, needing):
                if isinstance(written, torch.nn.Parameter) or not written.is_leaf:
                    raise
                _give_history(written)
                return func(*args, **(kwargs or {}))
            with torch.no_grad():
                return func(*args, **(kwargs or {}))


class SingleViews(TorchFunctionMode):
    """A function mode that replaces the views of multi-output functions (`split`, `chunk`, `unbind`) with single views.

    PyTorch raises an error for an in-place modification of "the output of a function that returns multiple views". A
    modification of a single view of the same elements reaches the base and its graph (torch 2.13, docs "Tensor Views").
    """

    def __torch_function__(self, func, _types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if not isinstance(result, list | tuple) or not all(isinstance(one, torch.Tensor) for one in result):
            return result
        split = next(tensors([args, kwargs or {}]), None)
        if split is None or not all(is_view(one) and one.requires_grad and shares_memory(split, one) for one in result):
            return result
        return type(result)(split.as_strided(one.shape, one.stride(), one.storage_offset()) for one in result)


def is_average(written: torch.Tensor, values: list[torch.Tensor]) -> bool:
    """Return whether a parameter receives values that were computed in a few operations from parameters of its shape only."""
    nodes, leaves = nodes_below(tuple(values)), leaves_below(tuple(values))
    of_parameters = all(isinstance(one, torch.nn.Parameter) and one.shape == written.shape for one in leaves)
    return isinstance(written, torch.nn.Parameter) and of_parameters and len(nodes) - len(leaves) <= FEW


def shares_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors share a storage."""
    return one is other or one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _give_history(leaf: torch.Tensor) -> None:
    """Turn a leaf into the result of a copy of a new leaf with the same values. The new leaf receives the gradient."""
    origin = leaf.detach().clone().requires_grad_()
    leaf.requires_grad_(False).copy_(origin)
