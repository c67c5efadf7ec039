"""Find the expressions that reach tensors from the frames of a program, such as `d`, `hs[0]`, `self.weight` or `net.fc.bias`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from types import FrameType

import torch

# Naming all elements of a container that grows with each statement takes quadratic time, so only both ends are named.
ENDS = 8
DEPTH = 3


def tensors_in(value: object, name: str, depth: int = DEPTH) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield each tensor reachable from `value`, with the expression that reaches it from `name`."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif depth == 0 or isinstance(value, (str, bytes, int, float, type, type(None))):
        return
    elif isinstance(value, torch.nn.Module):
        yield from _module(value, name, depth)
    elif isinstance(value, (list, tuple)):
        fields = getattr(value, "_fields", None)
        for index in _ends(len(value)):
            inner = f"{name}.{fields[index]}" if fields else f"{name}[{index}]"
            yield from tensors_in(value[index], inner, depth - 1)
    elif isinstance(value, dict):
        for key in list(value)[:ENDS] + list(value)[ENDS:][-ENDS:]:
            if isinstance(key, (str, int)):
                yield from tensors_in(value[key], f"{name}[{key!r}]", depth - 1)
    elif _is_plain_object(value):
        for attribute, inner in list(vars(value).items())[: 2 * ENDS]:
            yield from tensors_in(inner, f"{name}.{attribute}", depth - 1)


def _module(module: torch.nn.Module, name: str, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    if "_modules" not in vars(module):
        return  # its `__init__` has not called `super().__init__()` yet, so reading its parameters would raise
    for inner, tensor in module.named_parameters():
        yield f"{name}.{inner}", tensor
    for inner, buffer in module.named_buffers():
        yield f"{name}.{inner}", buffer
    for attribute, value in vars(module).items():
        if not attribute.startswith("_"):
            yield from tensors_in(value, f"{name}.{attribute}", depth - 1)


def _ends(length: int) -> Iterator[int]:
    yield from range(min(ENDS, length))
    yield from range(max(ENDS, length - ENDS), length)


def _is_plain_object(value: object) -> bool:
    """Return whether it is an instance of a class of the user, such as a state or a configuration."""
    kind = type(value)
    library = kind.__module__.partition(".")[0] in ("builtins", "torch", "numpy", "collections", "types", "functools")
    return hasattr(value, "__dict__") and not library and not isinstance(value, (type, torch.optim.Optimizer))


def bindings(space: Mapping[str, object], modules: dict[str, int]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield names and tensors of a frame's variables, including the tensors of a module if its name is new (`modules`)."""
    for name, value in list(space.items()):
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, torch.nn.Module):
            if modules.get(name) != id(value):
                modules[name] = id(value)
                yield from _module(value, name, 1)
        elif isinstance(value, (list, tuple, dict)) and not name.startswith("_"):
            yield from tensors_in(value, name, 2)


def find_name(
    wanted: torch.Tensor, frames: list[FrameType], same: Callable[[torch.Tensor, torch.Tensor], bool] = operator.is_
) -> str | None:
    """Return the shortest expression in the innermost frame that reaches the tensor, or one that is the `same`, or None."""
    for frame in reversed(frames):
        best = None
        for name, value in list(frame.f_locals.items()):
            if name.startswith("_") and name != "_":
                continue
            for text, tensor in tensors_in(value, name):
                if same(tensor, wanted) and (best is None or len(text) < len(best)):
                    best = text
        if best:
            return best
    return None
