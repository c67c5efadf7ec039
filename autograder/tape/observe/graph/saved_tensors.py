"""What a node keeps, read without unpacking it: the only reader of `_saved_*` and `_raw_saved_*`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

_PREFIX = "_raw_saved_"
# The words around the two numbers have changed between releases; "is at version N; expected version M" has not (1.4 to 2.13).
VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")


def kept_by(node: Any) -> Iterator[tuple[str, Callable[[], torch.Tensor | None], bool, bool]]:
    """Yields name, reader, whether it is checked, and whether it is only stashed, for each tensor that a node keeps.

    `_saved_x` raises where it is stale and re-runs the forward under `torch.utils.checkpoint`; `_raw_saved_x.data` does
    neither, and is None once freed. `unpack_hook` tells whether hooks are set, which switch the check off (torch 2.13).
    """
    for attribute in _attributes(type(node)):  # type: ignore[arg-type]
        saved = _attribute(node, attribute)
        many = isinstance(saved, (tuple, list))
        for index, one in enumerate(saved if many else (saved,)):
            if one is not None and isinstance(one.data, torch.Tensor):
                name = attribute.removeprefix(_PREFIX) + (f"[{index}]" if many else "")
                yield (
                    name,
                    functools.partial(_raw, node, attribute, index if many else None),
                    one.unpack_hook is None,
                    False,
                )
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        for name, value in list(vars(node).items()):
            for path, tensor in _tensors_in(name, value):
                yield f"ctx.{path}", functools.partial(_same, tensor), False, True


def has_hooks(node: Any, name: str) -> bool:
    """Returns whether hooks were set on one saved tensor after it was saved, which switches its check off."""
    attribute, _, index = name.partition("[")
    saved = _attribute(node, _PREFIX + attribute)
    one = saved[int(index[:-1])] if index and saved is not None else saved
    return one is not None and one.unpack_hook is not None


def hidden_in(node: Any) -> tuple[list[str], bool]:
    """Returns the names of what a node keeps in a form that only hooks can turn back, and whether the hooks are checkpoint's.

    `torch.utils.checkpoint` keeps no tensor at all and computes it again, from inputs whose versions it checks (torch 2.13).
    """
    names, checked = [], False
    for attribute in _attributes(type(node)):  # type: ignore[arg-type]
        saved = _attribute(node, attribute)
        if (
            saved is None
            or isinstance(saved, (tuple, list))
            or saved.data is None
            or isinstance(saved.data, torch.Tensor)
        ):
            continue
        names.append(attribute.removeprefix(_PREFIX))
        checked = checked or getattr(saved.unpack_hook, "__module__", "") == "torch.utils.checkpoint"
    return names, checked


def _attribute(node: Any, attribute: str) -> Any:
    try:
        return getattr(node, attribute)
    except RuntimeError:  # freed
        return None


@functools.cache
def _attributes(kind: type) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith(_PREFIX))


def _raw(node, attribute: str, index: int | None) -> torch.Tensor | None:
    saved = _attribute(node, attribute)
    tensor = None if saved is None else (saved if index is None else saved[index]).data
    return tensor if isinstance(tensor, torch.Tensor) else None


def _same(tensor: torch.Tensor) -> torch.Tensor:
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


def version_of(tensor: torch.Tensor) -> int | None:
    """Returns a tensor's counter; None for an inference tensor, which keeps none."""
    return None if tensor.is_inference() else tensor._version


def saved_version(node: object, name: str, tensor: torch.Tensor) -> int | None:
    """Returns the version a tensor had when it was saved: its own where backward accepts it, else the one that backward expects."""
    if "[" in name:
        return version_of(tensor)
    try:
        getattr(node, f"_saved_{name}")
    except RuntimeError as error:
        found = VERSIONS.search(str(error))
        return int(found[2]) if found else version_of(tensor)
    return version_of(tensor)
