"""Every PyTorch function the program calls, after it ran: what went in, what came out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps

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


@contextmanager
def replaced(owner: object, name: str, value: object) -> Iterator[None]:
    """The attribute is another inside."""
    inherited = name not in vars(owner)
    original = vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, original)


class Hearing(TorchFunctionMode):
    """A function mode that can go on listening inside a call it handles."""

    def __init__(self):
        super().__init__()
        self._handling = 0

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Stands around the handling of one call."""
        self._handling += 1
        try:
            yield
        finally:
            self._handling -= 1

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """Listens inside too: PyTorch switches a mode off while it handles a call, and a user's hooks run inside `backward`."""
        if not self._handling:
            yield
            return
        handling, self._handling = self._handling, 0
        try:
            with self:
                yield
        finally:
            self._handling = handling


class Functions(Hearing):
    """Tells `before(name, tensors)` and `after(name, tensors, result, count)` about each call.

    A function mode changes neither versions nor the graph (torch 2.13).

    Attributes:
        count: how many calls there were; the same in each run of a program that repeats.
    """

    def __init__(self, before: Callable[[str, list], None], after: Callable[[str, list, object, int], None]):
        super().__init__()
        self.before, self.after = before, after
        self.count = -1

    def __torch_function__(self, func, _types, args=(), kwargs=None):
        """Runs the function, then reports it."""
        self.count += 1
        count, name = self.count, function_name(func)
        if not name or name in FACTS:
            return func(*args, **(kwargs or {}))
        with self.handled():
            inputs = [*tensors((kwargs or {}).get("out")), *tensors(args), *tensors(kwargs or {})]
            self.before(name, inputs)
            result = func(*args, **(kwargs or {}))
            self.after(name, inputs, result, count)
            return result

    @contextmanager
    def overhearing(self) -> Iterator[None]:
        """Also hears `Tensor.set_`, the one function that writes and that no function mode is told of (torch 2.13)."""
        original = torch.Tensor.set_

        @wraps(original)
        def heard(*args, **kwargs):
            return self.__torch_function__(original, (), args, kwargs)

        with replaced(torch.Tensor, "set_", heard):
            yield
