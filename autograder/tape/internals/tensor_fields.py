"""What a tensor does not tell in public: its version, the tensor it is a view of, the storage object it shares.

All are read after every call of a watched program, so each function is one expression.
"""

from __future__ import annotations

import operator

import torch

from autograder.tape.internals.support import sets_versions

# Inside, no function mode receives what we read: attributes count as calls. (Documented only as DisableTorchFunctionSubclass,
# which leaves modes on; checked with 2.6 to 2.15.)
unheard = torch._C.DisableTorchFunction


def version_of(tensor: torch.Tensor) -> int | None:
    """Return a tensor's version counter: the number of in-place writes to its memory; None for an inference tensor."""
    return None if tensor.is_inference() else tensor._version


def base_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Returns the tensor that a view is a view of, as autograd knows it; None for any other."""
    return tensor._base if tensor._is_view() else None


def is_view(tensor: torch.Tensor) -> bool:
    """Return whether autograd knows a tensor as a view; results of `detach()` and `.data` are not views."""
    return tensor._is_view()


def has_values(tensor: torch.Tensor) -> bool:
    """Returns whether a tensor holds numbers: not on the device `meta`, and not under `FakeTensorMode`."""
    return not (tensor.is_meta or type(tensor).__name__ == "FakeTensor")


def is_transformed(tensor: torch.Tensor) -> bool:
    """Returns whether a tensor stands for others inside `vmap` or `torch.func.grad`, and is dead outside; False where none can tell."""
    is_wrapped = getattr(torch._C._functorch, "is_functorch_wrapped_tensor", None)
    return is_wrapped is not None and is_wrapped(tensor)


def storage_number(tensor: torch.Tensor) -> int:
    """Returns a number for the storage object; two tensors with the same bytes and another number met through NumPy or DLPack."""
    return getattr(tensor.untyped_storage(), "_cdata", 0)


def set_version(tensor: torch.Tensor, version: int) -> None:
    """Sets a tensor's counter, after we ourselves have put its bytes back; where that cannot be done, the counter stays."""
    if sets_versions():
        try:
            torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))
        except TypeError:  # 2.6 takes one tensor
            torch._C._autograd._unsafe_set_version_counter(tensor, version)  # type: ignore[arg-type]


read_version = operator.attrgetter("_version")
"""`version_of` at a quarter of its cost, for what is called at every operation; raises RuntimeError for an inference tensor."""
