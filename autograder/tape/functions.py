"""Every PyTorch function the program calls, after it ran: what went in, what came out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode

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


def function_name(func: Callable) -> str:
    """Returns a short name of what was called: "add_", "data" for reading an attribute, "data =" for assigning one."""
    name = getattr(func, "__name__", str(func))
    if name in ("__get__", "__set__"):
        attribute = getattr(getattr(func, "__self__", None), "__name__", "")
        return attribute if name == "__get__" else f"{attribute} ="
    return name


def tensors(value: object, depth: int = 3) -> Iterator[torch.Tensor]:
    """Yields the tensors among a call's arguments or results, through lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item, depth - 1)
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from tensors(item, depth - 1)


class Functions(TorchFunctionMode):
    """Tells `before(tensors)` and `after(name, tensors, result)` about each call.

    A function mode changes neither versions nor the graph (torch 2.13).
    """

    def __init__(self, before: Callable[[list], None], after: Callable[[str, list, object], None]):
        super().__init__()
        self.before, self.after = before, after
        self.handling = 0

    def __torch_function__(self, func, _types, args=(), kwargs=None):
        """Runs the function, then reports it."""
        name = function_name(func)
        if name in FACTS:
            return func(*args, **(kwargs or {}))
        self.handling += 1
        try:
            inputs = list(tensors((kwargs or {}).get("out"))) + list(tensors(args)) + list(tensors(kwargs or {}))
            self.before(inputs)
            result = func(*args, **(kwargs or {}))
            self.after(name, inputs, result)
        finally:
            self.handling -= 1
        return result

    @contextmanager
    def again(self) -> Iterator[None]:
        """Listens inside too: PyTorch switches a mode off while it handles a call, and a user's hooks run inside `backward`."""
        if not self.handling:
            yield
            return
        handling, self.handling = self.handling, 0
        try:
            with self:
                yield
        finally:
            self.handling = handling
