"""What a program would do if PyTorch let it write into a leaf: the write happens as under `torch.no_grad()`."""

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
            if any(other.requires_grad for other in others if other is not written):
                if isinstance(written, torch.nn.Parameter) or not written.is_leaf:
                    raise
                _give_history(written)
                return func(*args, **(kwargs or {}))
            with torch.no_grad():
                return func(*args, **(kwargs or {}))


def _give_history(leaf: torch.Tensor) -> None:
    """Makes of a leaf a tensor that was computed from another leaf with the same values, which gets its gradient."""
    origin = leaf.detach().clone().requires_grad_()
    leaf.requires_grad_(False).copy_(origin)
