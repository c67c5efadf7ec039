"""What a program would do if PyTorch let it make the writes that it refuses: into a leaf, or one of several views."""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode

from autograder.tape.run.function_mode import tensors

REFUSED = "leaf Variable that requires grad is being used in an in-place operation"  # PyTorch 2.13 and 2.15


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
            if REFUSED not in str(error):
                raise
            written, *others = tensors([args, kwargs or {}])
            # `view[0] += 1` ends in assigning the view to itself, which brings no history into it.
            if any(other.requires_grad for other in others if not shares_memory(written, other)):
                if isinstance(written, torch.nn.Parameter) or not written.is_leaf:
                    raise
                _give_history(written)
                return func(*args, **(kwargs or {}))
            with torch.no_grad():
                return func(*args, **(kwargs or {}))


class SeparateViews(TorchFunctionMode):
    """Gives each of several views that one call returns (`split`, `chunk`, `unbind`) memory of its own, so that it may be written.

    PyTorch refuses such a write in backward's graph ("the output of a function that returns multiple views"), so a program that
    stops there has not yet read it through the tensor that was split.
    """

    def __torch_function__(self, func, _types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if not isinstance(result, list | tuple) or not torch.is_grad_enabled():
            return result
        views = [isinstance(one, torch.Tensor) and one._is_view() and one.requires_grad for one in result]
        return type(result)(one.clone() for one in result) if views and all(views) else result


def shares_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are of one storage."""
    return one is other or one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _give_history(leaf: torch.Tensor) -> None:
    """Makes of a leaf a tensor that was computed from another leaf with the same values, which gets its gradient."""
    origin = leaf.detach().clone().requires_grad_()
    leaf.requires_grad_(False).copy_(origin)
