"""Names of the PyTorch functions that a function mode receives. Many of them are private."""

from __future__ import annotations

from collections.abc import Callable

# These functions expose memory that can then be modified without a function call or a version counter.
EXPOSING = {
    "numpy",
    "__array__",
    "__dlpack__",
    "untyped_storage",
    "storage",
    "_typed_storage",
    "data_ptr",
    "share_memory_",
}
# Metadata of a tensor. Programs read it so often that a recording must ignore it.
FACTS = {
    "size",
    "dim",
    "numel",
    "stride",
    "is_floating_point",
    "is_contiguous",
    "element_size",
    "_set_grad_enabled",
    "__len__",
}
# Attributes that return tensors, or whose assignment gives a tensor other memory or another gradient.
TENSORS = {"data", "grad", "T", "H", "mT", "mH", "real", "imag", "_grad"}


def function_name(func: Callable) -> str:
    """Return a short name of the called function: "add_", "data" to read an attribute, "data =" to assign it, "" for metadata."""
    name = getattr(func, "__name__", str(func))
    if name not in ("__get__", "__set__"):
        return name
    attribute = getattr(getattr(func, "__self__", None), "__name__", "")
    # PyTorch sets `_backward_hooks` while it recreates the node of a view, with a lock that `is_leaf` waits for (2.13).
    if attribute not in TENSORS:
        return ""
    return attribute if name == "__get__" else f"{attribute} ="


# Assignments of a gradient: the first by the program, the second by PyTorch.
GRADIENT_GIVEN = ("grad =", "_grad =")
# Functions that zero tensors in place; an optimizer's `zero_grad(set_to_none=False)` zeros a list of tensors.
EMPTYING = ("zero_", "_foreach_zero_")
