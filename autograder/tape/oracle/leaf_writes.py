"""What a program would do if PyTorch let it make the writes that it refuses: into a leaf, or one of several views."""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode

from autograder.errors import message_of
from autograder.tape.internals.tensor_fields import is_view
from autograder.tape.run.function_mode import tensors
from autograder.tape.run.graph_walk import leaves_below, nodes_below

REFUSED = "leaf Variable that requires grad is being used in an in-place operation"  # PyTorch 2.13 and 2.15
FEW = 8  # operations that make a moving average of two parameters


class PermittedLeafWrites(TorchFunctionMode):
    """Carries out the in-place operations on leaves that PyTorch refuses.

    A value that itself needs a gradient is not written under `no_grad`: its history would be lost, and with it what the program
    was meant to compute. Where the leaf is no parameter, it first gets the history of a copy, as a tensor that was computed has
    one; into a parameter (the inner step of MAML) the refusal stays.
    """

    def __torch_function__(self, func, _types, args=(), kwargs=None):
        try:
            return func(*args, **(kwargs or {}))
        except RuntimeError as error:
            if REFUSED not in message_of(error):
                raise
            written, *others = tensors([args, kwargs or {}])
            # `view[0] += 1` ends in assigning the view to itself, which brings no history into it.
            needing = [one for one in others if one.requires_grad and not shares_memory(written, one)]
            if needing and not is_average(written, needing):
                if isinstance(written, torch.nn.Parameter) or not written.is_leaf:
                    raise
                _give_history(written)
                return func(*args, **(kwargs or {}))
            with torch.no_grad():
                return func(*args, **(kwargs or {}))


class SingleViews(TorchFunctionMode):
    """Takes each of several views that one call returns (`split`, `chunk`, `unbind`) by a call of its own, so that it may be written.

    PyTorch refuses a write into "the output of a function that returns multiple views"; a write into a view of the same elements
    that was taken alone reaches what was split, and its history (torch 2.13, docs "Tensor Views").
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
    """Whether a parameter gets values that were computed from parameters of its shape in a few steps, and from nothing else."""
    nodes, leaves = nodes_below(tuple(values)), leaves_below(tuple(values))
    of_parameters = all(isinstance(one, torch.nn.Parameter) and one.shape == written.shape for one in leaves)
    return isinstance(written, torch.nn.Parameter) and of_parameters and len(nodes) - len(leaves) <= FEW


def shares_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are of one storage."""
    return one is other or one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _give_history(leaf: torch.Tensor) -> None:
    """Makes of a leaf a tensor that was computed from another leaf with the same values, which gets its gradient."""
    origin = leaf.detach().clone().requires_grad_()
    leaf.requires_grad_(False).copy_(origin)
