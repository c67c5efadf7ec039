"""Private properties of tensors and nodes: version counter, base of a view, identity of the storage object, saved tensors.

A recording reads them after each call of the program, so each function is a single expression.

`node._saved_x` compares versions, raises if the tensor was modified after it was saved, and calls the program's hooks,
which under `torch.utils.checkpoint` run the forward again. `node._raw_saved_x` avoids that. It is a
`torch.autograd.SavedTensor`, and newer releases make its `data` and `unpack_hook` readable (2.13 and 2.15 do, 2.6 does
not). If they are not readable, the hooks of the program are wrapped, so that reading `_saved_x` calls the wrapper and
not a hook of the program.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._mode_utils
import torch.utils._pytree

from autograder.tape.internals.entry_points import Hook, replaced, replaced_hooks
from autograder.tape.internals.support import sets_versions

# Function modes do not receive attribute reads in this context. (Documented only as DisableTorchFunctionSubclass, which
# does not disable modes; checked with 2.6 to 2.15.)
mode_paused = torch._C.DisableTorchFunction

no_dispatch: Callable[[], AbstractContextManager[None]] = torch.utils._mode_utils.no_dispatch
"""A context without the program's dispatch modes (undocumented; checked with 2.11 and 2.13)."""

map_only: Callable[[type, Callable[[Any], Any], Any], Any] = torch.utils._pytree.tree_map_only
"""Replace the leaves of one type in nested lists, tuples and dictionaries."""


def version_of(tensor: torch.Tensor) -> int | None:
    """Return the version counter of a tensor, the number of in-place modifications of its memory, or None for an inference tensor."""
    return None if tensor.is_inference() else tensor._version


def base_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the base of a view, as autograd knows it, or None if the tensor is not a view."""
    return tensor._base if tensor._is_view() else None


def hooks_of(tensor: torch.Tensor) -> list[Any]:
    """Return the hooks of a leaf that receive its gradient (`Tensor.register_hook` keeps them there, 2.6 to 2.15)."""
    return list((tensor._backward_hooks or {}).values())


def is_view(tensor: torch.Tensor) -> bool:
    """Return whether autograd knows a tensor as a view. Results of `detach()` and `.data` are not views."""
    return tensor._is_view()


def has_values(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has data: not on the device `meta`, and not under `FakeTensorMode`."""
    return not (tensor.is_meta or type(tensor).__name__ == "FakeTensor")


def is_transformed(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a wrapper of `vmap` or `torch.func.grad`, which is invalid outside of them."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def is_batched(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a wrapper of `autograd.grad(is_grads_batched=True)`, which cannot be detached (2.6 to 2.14)."""
    return torch._C._functorch.is_legacy_batchedtensor(tensor)


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor below the wrappers of `vmap`, `torch.func.grad` and batched calls of backward, whose values stay readable."""
    while is_transformed(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    if is_batched(tensor):
        level = torch._C._vmapmode_increment_nesting() - 1
        torch._C._vmapmode_decrement_nesting()
        tensor = torch._remove_batch_dim(tensor, level, 0, 0)
    return tensor


def storage_number(tensor: torch.Tensor) -> int:
    """Return an identifier of the storage object. Objects that share bytes through NumPy or DLPack have different ones."""
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


_PREFIX = "_raw_saved_"
# The rest of the message differs between releases; "is at version N; expected version M" is in all of them (1.4 to
# 2.15).
VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")
FREED = "backward through the graph a second time"  # in PyTorch's message, 2.6 to 2.15
# Both are properties, so the class has them.
READABLE = hasattr(torch.autograd.SavedTensor, "data") and hasattr(torch.autograd.SavedTensor, "unpack_hook")


@dataclass(frozen=True, slots=True)
class SavedState:
    """A saved tensor, with the two attributes of SavedTensor in newer releases."""

    data: Any  # the tensor, or the return value of a pack hook; None if nothing was saved or backward has freed it
    # the hook that converts `data` back to a tensor; None if no hook is set, in which case backward compares versions
    unpack_hook: Callable[..., Any] | None


@functools.cache
def saved_names(kind: type) -> tuple[str, ...]:
    """Return the attribute names of the saved tensors of a node class without their prefix, such as "self" and "result"."""
    return tuple(name.removeprefix(_PREFIX) for name in dir(kind) if name.startswith(_PREFIX))


def saved_state(node: Any, name: str) -> Any:
    """Return the value that `node` saved as `name`: an object with `data` and `unpack_hook`, a tuple of them, or None if freed."""
    try:
        saved = getattr(node, _PREFIX + name)
    except RuntimeError:  # freed by backward
        return None
    return saved if READABLE else _emulated(node, name, saved)


def expected_version(node: object, name: str) -> int | None:
    """Return the version that backward expects of a saved tensor if the tensor has another version now, else None."""
    try:
        getattr(node, f"_saved_{name}")
    except RuntimeError as error:
        match = VERSIONS.search(str(error))
        return int(match[2]) if match else None
    return None


def padding_row(node: Any) -> int | None:
    """Return the row whose gradient an embedding's node sets to 0, or None. Without one, PyTorch returns -1 as 2^64 - 1 (2.13)."""
    row = getattr(node, "_saved_padding_idx", -1)
    return row if 0 <= row < 1 << 63 else None


def is_freed(node: Any) -> bool:
    """Return whether a backward has freed the saved tensors of a node."""
    kind: type = type(node)
    return any(_is_freed(node, name) for name in saved_names(kind))


def _is_freed(node: Any, name: str) -> bool:
    state = saved_state(node, name)
    if isinstance(state, tuple) or (state is not None and (state.data is not None or state.unpack_hook is not None)):
        return False
    custom = isinstance(node, torch.autograd.function.BackwardCFunction)
    try:
        getattr(node, f"saved_{name}" if custom else f"_saved_{name}")
    except RuntimeError as error:
        return FREED in str(error)
    return False


_POOLS = ("AvgPool", "AdaptiveAvgPool", "AdaptiveMaxPool", "FractionalMaxPool", "ReflectionPad", "ReplicationPad")
_UNREAD = {
    *((f"{kind}{size}DBackward0", "self") for kind in _POOLS for size in "123"),
    *((f"MaxPool{size}DWithIndicesBackward0", "self") for size in "23"),
    *((f"{kind}Backward0", "self") for kind in ("Gather", "MaskedSelect", "NllLoss", "NllLoss2D")),
    *(("MkldnnRnnLayerBackward0", name) for name in ("weight2", "weight3", "result3")),
    ("CudnnRnnBackward0", "dropout_state"),
}


def is_read(node: Any, name: str) -> bool:
    """Return whether backward reads the values that a node saved as `name`.

    In training mode, batch norm and its derivative save the running statistics without reading them (2.13 and 2.15).
    Pools, pads and some losses read only the shape of their input, and recurrent networks on the CPU not their biases (2.13).
    Recurrent networks on the CPU save `result3`, a workspace that their backward overwrites and that a second backward may reuse (2.13).
    Those of cuDNN save `dropout_state`, the state of a random generator that each forward advances (2.11).
    """
    is_training = getattr(node, "_saved_training", False) or getattr(node, "_saved_train", False)
    return (type(node).__name__, name) not in _UNREAD and not (name in ("running_mean", "running_var") and is_training)


def is_checkpoint(hook: Callable[..., Any] | None) -> bool:
    """Return whether an unpack hook belongs to `torch.utils.checkpoint`, which recomputes the tensor."""
    return getattr(hook, "__module__", "") == "torch.utils.checkpoint"


# Placeholder for a tensor that was modified after it was saved, and that this release therefore does not let us read.
STALE = torch.empty(0)


@dataclass(frozen=True, slots=True)
class _Packed:
    packed: Any
    unpack: Callable[..., Any]


_met: list[_Packed] | None = None  # the packed values, while we read a saved tensor


def _wrapped(pack: Hook, unpack: Hook) -> tuple[Hook, Hook]:
    def packing(tensor: Any) -> Any:
        return _Packed(pack(tensor), unpack)

    def unpacking(held: Any) -> Any:
        if _met is None:
            return unpack(held.packed)
        _met.append(held)
        return STALE

    return packing, unpacking


def unchecked(node: Any, name: str, near: tuple[torch.Tensor, ...]) -> torch.Tensor | None:
    """Return a saved tensor that `saved_state` returns as STALE, or None.

    The tensor is found if it shares its version counter with a tensor of `near`. The counter is set to the expected
    version while the tensor is read, and then restored.
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
    """Make `saved_state` work for nodes that are created in the block, if this release needs the wrapped hooks."""
    if READABLE:
        yield
        return
    register = torch.autograd.SavedTensor.register_hooks  # type: ignore[attr-defined]

    def registered(tensor: Any, pack: Any, unpack: Any) -> Any:
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
        return tuple(_state(part, packed) for part in value)
    return _state(value, packed)


def _state(value: torch.Tensor | None, packed: Iterator[_Packed]) -> SavedState:
    held = None if value is None else next(packed, None)
    return SavedState(value, None) if held is None else SavedState(held.packed, held.unpack)
