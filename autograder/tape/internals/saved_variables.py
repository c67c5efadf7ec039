"""What a backward node saved, read without unpacking it.

`node._saved_x` compares versions, raises where the tensor was written into since, and calls the program's hooks, which under
`torch.utils.checkpoint` run the forward again. `node._raw_saved_x` does none of that: it is a `torch.autograd.SavedTensor`,
and newer releases let its `data` and `unpack_hook` be read (2.13 and 2.15 do, 2.6 does not). Where they cannot be read, the
hooks that a watched program sets are wrapped, so that reading `_saved_x` meets our wrapper and no hook of the program's.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from autograder.tape.internals.entry_points import replaced, replaced_hooks
from autograder.tape.internals.tensor_fields import set_version, version_of

_PREFIX = "_raw_saved_"
# The words around the two numbers have changed between releases; "is at version N; expected version M" has not (1.4 to 2.15).
VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")
# Probed on the class: both are properties of it.
READABLE = hasattr(torch.autograd.SavedTensor, "data") and hasattr(torch.autograd.SavedTensor, "unpack_hook")


@dataclass(frozen=True, slots=True)
class SavedState:
    """One saved tensor, with the two attributes of newer releases' SavedTensor.

    Attributes:
        data: the tensor, or what a pack hook made of it; None where nothing was saved, or backward has freed it.
        unpack_hook: the hook that turns `data` back; None where none is set, and then backward compares versions.
    """

    data: Any
    unpack_hook: Callable | None


@functools.cache
def saved_names(kind: type) -> tuple[str, ...]:
    """Returns the names under which nodes of one class save tensors, such as "self" and "result"."""
    return tuple(name.removeprefix(_PREFIX) for name in dir(kind) if name.startswith(_PREFIX))


def saved_state(node: Any, name: str) -> Any:
    """Return the value that `node` saved as `name`: one object with `data` and `unpack_hook`, a tuple of them, or None if freed."""
    try:
        saved = getattr(node, _PREFIX + name)
    except RuntimeError:  # freed
        return None
    return saved if READABLE else _emulated(node, name, saved)


def expected_version(node: object, name: str) -> int | None:
    """Returns the version that backward expects of a saved tensor it would refuse now; None where it would accept it."""
    try:
        getattr(node, f"_saved_{name}")
    except RuntimeError as error:
        found = VERSIONS.search(str(error))
        return int(found[2]) if found else None
    return None


def is_read(node: Any, name: str) -> bool:
    """Returns whether backward needs the values that a node saved.

    In training, batch norm keeps its running statistics unused (2.13 and 2.15), and the CPU's recurrent networks keep a scratch
    space, `result3`, that their own backward writes into and that a second one may use again (2.13).
    """
    scratch = name == "result3" and type(node).__name__ == "MkldnnRnnLayerBackward0"
    return not scratch and not (name in ("running_mean", "running_var") and getattr(node, "_saved_training", False))


def is_checkpoint(hook: Callable | None) -> bool:
    """Returns whether an unpack hook is the one of `torch.utils.checkpoint`, which computes the tensor again."""
    return getattr(hook, "__module__", "") == "torch.utils.checkpoint"


# The tensor stands for one that was written into since it was saved: this release does not show it unchecked.
STALE = torch.empty(0)


@dataclass(frozen=True, slots=True)
class _Packed:
    packed: Any
    unpack: Callable


_met: list[_Packed] | None = None  # while a saved tensor is read by us: what was packed


def _wrapped(pack: Callable, unpack: Callable) -> tuple[Callable, Callable]:
    def packing(tensor):
        return _Packed(pack(tensor), unpack)

    def unpacking(held):
        if _met is None:
            return unpack(held.packed)
        _met.append(held)
        return STALE

    return packing, unpacking


def unchecked(node: Any, name: str, near: tuple[torch.Tensor, ...]) -> torch.Tensor | None:
    """Returns a saved tensor that `saved_state` calls STALE, if it shares its counter with one of `near`; else None.

    The counter is set back for the time of reading, and then forward again.
    """
    expected = expected_version(node, name)
    for tensor in near:
        now = version_of(tensor)
        if now is None or expected is None or now <= expected:
            continue
        set_version(tensor, expected)
        try:
            state = saved_state(node, name)
        finally:
            set_version(tensor, now)
        if state is not None and state.data is not STALE:
            return state.data
    return None


@contextmanager
def readable_saved_tensors() -> Iterator[None]:
    """Makes `saved_state` work for nodes made inside; where it works anyway, nothing is changed."""
    if READABLE:
        yield
        return
    register = torch.autograd.SavedTensor.register_hooks  # type: ignore[attr-defined]

    def registered(tensor, pack, unpack):
        return register(tensor, *_wrapped(pack, unpack))

    with replaced_hooks(_wrapped), replaced(torch.autograd.SavedTensor, "register_hooks", registered):
        yield


def _emulated(node: Any, name: str, saved: Any) -> Any:
    global _met
    custom = isinstance(node, torch.autograd.function.BackwardCFunction)
    met: list[_Packed] = []
    _met = met
    try:
        value = getattr(node, f"saved_{name}" if custom else f"_saved_{name}")
    except RuntimeError as error:
        return SavedState(STALE, None) if VERSIONS.search(str(error)) and not isinstance(saved, tuple) else None
    finally:
        _met = None
    packed = iter(met)
    if isinstance(value, tuple):
        return tuple(_state(one, packed) for one in value)
    return _state(value, packed)


def _state(value: torch.Tensor | None, packed: Iterator[_Packed]) -> SavedState:
    held = None if value is None else next(packed, None)
    return SavedState(value, None) if held is None else SavedState(held.packed, held.unpack)
