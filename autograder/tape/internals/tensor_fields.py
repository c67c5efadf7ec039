"""Private properties of tensors: version counter, base of a view, identity of the storage object.

A recording reads them after each call of the program, so each function is a single expression.
"""

from __future__ import annotations

import operator

import torch

from autograder.tape.internals.support import sets_versions

# Function modes do not receive attribute reads in this context. (Documented only as DisableTorchFunctionSubclass, which
# does not disable modes; checked with 2.6 to 2.15.)
unheard = torch._C.DisableTorchFunction


def version_of(tensor: torch.Tensor) -> int | None:
    """Return the version counter of a tensor, the number of in-place modifications of its memory, or None for an inference tensor."""
    return None if tensor.is_inference() else tensor._version


def base_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the base of a view, as autograd knows it, or None if the tensor is not a view."""
    return tensor._base if tensor._is_view() else None


def is_view(tensor: torch.Tensor) -> bool:
    """Return whether autograd knows a tensor as a view. Results of `detach()` and `.data` are not views."""
    return tensor._is_view()


def has_values(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has data: not on the device `meta`, and not under `FakeTensorMode`."""
    return not (tensor.is_meta or type(tensor).__name__ == "FakeTensor")


def is_transformed(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a wrapper of `vmap` or `torch.func.grad`, which is invalid outside of these functions.

    Return False if this release does not provide that information.
    """
    is_wrapped = getattr(torch._C._functorch, "is_functorch_wrapped_tensor", None)
    return is_wrapped is not None and is_wrapped(tensor)


def storage_number(tensor: torch.Tensor) -> int:
    """Return an identifier of the storage object.

    Two tensors with the same bytes and different identifiers share memory through NumPy or DLPack.
    """
    return getattr(tensor.untyped_storage(), "_cdata", 0)


def set_version(tensor: torch.Tensor, version: int) -> None:
    """Set the version counter of a tensor whose bytes a recording has restored, if this release can set it."""
    if sets_versions():
        try:
            torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))
        except TypeError:  # 2.6 takes one tensor
            torch._C._autograd._unsafe_set_version_counter(tensor, version)  # type: ignore[arg-type]


read_version = operator.attrgetter("_version")
"""`version_of` at a quarter of its cost, for code that runs at each operation. It raises RuntimeError for an inference tensor."""
