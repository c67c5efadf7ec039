"""Read the saved tensors of a node, and their versions when they were saved."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from autograder.tape.internals.saved_variables import (
    STALE,
    expected_version,
    is_checkpoint,
    saved_names,
    saved_state,
    unchecked,
)
from autograder.tape.internals.tensor_fields import version_of
from autograder.tape.run.function_mode import tensors
from autograder.tape.run.storages import address_of


def kept_by(
    node: Any, near: tuple[torch.Tensor, ...] = ()
) -> Iterator[tuple[str, Callable[[], torch.Tensor | None], bool, bool]]:
    """Yield name, reader, whether versions are checked, and whether it is an attribute of ctx, for each saved tensor of a node.

    `near` are inputs of the operation. A reader returns None after the tensor was freed. Saved-tensor hooks disable the
    version check (torch 2.13).
    """
    for name in saved_names(type(node)):  # type: ignore[arg-type]
        saved = saved_state(node, name)
        many = isinstance(saved, (tuple, list))
        for index, one in enumerate(saved if many else (saved,)):
            tensor = None if one is None else one.data
            read: Callable[[], torch.Tensor | None] = functools.partial(_raw, node, name, index if many else None)
            if tensor is STALE:  # such as `b.mul_(b)`: the operation that saved the tensor also modified it
                tensor = unchecked(node, name, near)
                read = functools.partial(_same, tensor)
            if isinstance(tensor, torch.Tensor):
                yield name + (f"[{index}]" if many else ""), read, one.unpack_hook is None, False
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        for name, value in list(vars(node).items()):
            for path, tensor in _tensors_in(name, value):
                yield f"ctx.{path}", functools.partial(_same, tensor), False, True


def has_hooks(node: Any, name: str) -> bool:
    """Return whether hooks were set on a saved tensor after it was saved, which disables its version check."""
    attribute, _, index = name.partition("[")
    saved = saved_state(node, attribute)
    one = saved[int(index[:-1])] if index and saved is not None else saved
    return one is not None and one.unpack_hook is not None


def hidden_in(node: Any) -> tuple[dict[str, object], bool]:
    """Return the values that only hooks can convert to tensors, by name, and whether the hooks belong to `torch.utils.checkpoint`.

    `torch.utils.checkpoint` saves no tensor and recomputes it from inputs whose versions it checks (torch 2.13).
    """
    hidden: dict[str, object] = {}
    checked = False
    for name in saved_names(type(node)):  # type: ignore[arg-type]
        saved = saved_state(node, name)
        many = isinstance(saved, (tuple, list))
        for index, one in enumerate(saved if many else (saved,)):
            if one is not None and one.data is not None and not isinstance(one.data, torch.Tensor):
                hidden[name + (f"[{index}]" if many else "")] = one.data
                checked = checked or is_checkpoint(one.unpack_hook)
    return hidden, checked


def shares_memory(tensor: torch.Tensor, packed: object) -> bool:
    """Return whether a packed value changes with its tensor: not if it contains only tensors with other memory."""
    place, held = address_of(tensor), list(tensors(packed))
    return not held or place in map(address_of, held)


def _raw(node, name: str, index: int | None) -> torch.Tensor | None:
    saved = saved_state(node, name)
    tensor = None if saved is None else (saved if index is None else saved[index]).data
    return tensor if isinstance(tensor, torch.Tensor) else None


def kept_still(node: Any, name: str, tensor: torch.Tensor) -> torch.Tensor | None:
    """Return a tensor while the node keeps its packed value, else None."""
    return tensor if name in hidden_in(node)[0] else None


def _same(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return tensor


def _tensors_in(name: str, value: object) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value[:16]):
            if isinstance(item, torch.Tensor):
                yield f"{name}[{index}]", item
    elif isinstance(value, dict):
        for key, item in list(value.items())[:16]:
            if isinstance(item, torch.Tensor):
                yield f"{name}[{key!r}]", item


def saved_version(node: object, name: str, tensor: torch.Tensor) -> int | None:
    """Return the version of a tensor when it was saved: the current one if backward accepts it, else the one that backward expects."""
    expected = None if "[" in name else expected_version(node, name)
    return version_of(tensor) if expected is None else expected
