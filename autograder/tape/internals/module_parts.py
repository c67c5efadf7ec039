"""The parts, parameters and buffers of a module, read without its methods, which a class may override."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def members(module: torch.nn.Module, kind: str) -> dict[str, Any]:
    """Return the `_parameters`, `_buffers` or `_modules` of a module itself, by name; {} before `super().__init__()`."""
    # A class of ScriptModule passes its parts on to another object (torch 2.13).
    holder = vars(module).get("_actual_script_module", module)
    return {name: item for name, item in (vars(holder).get(kind) or {}).items() if item is not None}


def parts(module: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """Return the module and its parts, by path, in the order of `named_modules()`. A part with several paths has the first."""
    reached: dict[str, torch.nn.Module] = {}
    waiting, seen = [("", module)], set[int]()
    while waiting:
        path, part = waiting.pop()
        if id(part) not in seen:
            seen.add(id(part))
            reached[path] = part
            inner = members(part, "_modules").items()
            waiting += [(f"{path}.{name}" if path else name, child) for name, child in inner][::-1]
    return reached


def named_tensors(module: torch.nn.Module, kind: str = "_parameters") -> Iterator[tuple[str, Any]]:
    """Yield the path of each parameter or each buffer (`_buffers`) of a module and its parts, once."""
    seen: set[int] = set()
    for path, part in parts(module).items():
        for name, tensor in members(part, kind).items():
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield f"{path}.{name}" if path else name, tensor


def parameters(module: torch.nn.Module) -> list[Any]:
    """Return the parameters of a module and of its parts."""
    return [parameter for _, parameter in named_tensors(module)]
