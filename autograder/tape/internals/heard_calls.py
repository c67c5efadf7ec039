"""The names under which a function mode receives a program's calls: PyTorch's own, many of them private."""

from __future__ import annotations

from collections.abc import Callable

# Through what these return, memory can be written without any function or counter knowing.
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
# Plain facts about a tensor; they are asked for so often that they must cost nothing.
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
# Attributes that are tensors, or whose assignment gives a tensor other memory or another gradient.
TENSORS = {"data", "grad", "T", "H", "mT", "mH", "real", "imag", "_grad"}


def function_name(func: Callable) -> str:
    """Returns a short name of what was called: "add_", "data" for reading an attribute, "data =" for assigning it; "" for facts."""
    name = getattr(func, "__name__", str(func))
    if name not in ("__get__", "__set__"):
        return name
    attribute = getattr(getattr(func, "__self__", None), "__name__", "")
    # PyTorch sets `_backward_hooks` itself while it rebuilds a view's node, holding a lock that `is_leaf` waits for (2.13).
    if attribute not in TENSORS:
        return ""
    return attribute if name == "__get__" else f"{attribute} ="


# Assigning a gradient, as a program writes it and as PyTorch passes it on.
GRADIENT_GIVEN = ("grad =", "_grad =")
# What empties a tensor in place; an optimizer's `zero_grad(set_to_none=False)` empties a list of them.
EMPTYING = ("zero_", "_foreach_zero_")
