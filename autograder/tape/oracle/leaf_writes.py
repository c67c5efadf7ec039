"""What a program would do if PyTorch let it write into a leaf: the write happens as under `torch.no_grad()`."""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode

from autograder.tape.run.function_mode import tensors

REFUSED = "leaf Variable that requires grad is being used in an in-place operation"  # PyTorch 2.13 and 2.15


class PermittedLeafWrites(TorchFunctionMode):
    """Carries out the in-place operations on leaves that PyTorch refuses.

    A value that itself needs a gradient is not written: under `no_grad` its history would be lost, and with it what the program
    was meant to compute (the inner step of MAML); there the refusal stays.
    """

    def __torch_function__(self, func, _types, args=(), kwargs=None):
        try:
            return func(*args, **(kwargs or {}))
        except RuntimeError as error:
            written, *others = tensors([args, kwargs or {}])
            if REFUSED not in str(error) or any(other.requires_grad for other in others if other is not written):
                raise
            with torch.no_grad():
                return func(*args, **(kwargs or {}))
