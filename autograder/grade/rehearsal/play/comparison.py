"""What one call did, and whether two calls did the same: value, type, writes, error, printed text, gradients, shared memory."""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import itertools
import random
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

LONGEST = 200  # items that are taken of a generator
PAIRED = 30  # tensors whose memory is compared, each with each
CLOSE = 1e-9  # relative; the order of additions may differ


# What is compared, in the words of a report; in the order of CallOutcome's fields.
ASPECTS = (
    *("its error", "its value", "what it writes", "what it prints"),
    *("its gradients", "what records gradients", "the memory that it shares"),
)


class CallOutcome(NamedTuple):
    """What a call left behind.

    Attributes:
        error: the name of the class that it raised, "" for none.
        value: what it returned; of a generator the first items.
        after: its arguments afterwards.
        printed: its standard output.
        gradients: of what it returned, weighted, with respect to each leaf among the arguments.
        recorded: of each tensor that was returned or kept in an argument, whether autograd follows it.
        shared: for each pair of tensors that were returned or can be reached from the arguments, whether they share memory.
    """

    error: str
    value: Any
    after: Any
    printed: str
    gradients: list[Any]
    recorded: list[bool]
    shared: list[bool]


def outcome(function: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]) -> CallOutcome:
    """Calls a function from fixed random states; what it is handed may be changed."""
    seed_all()
    given, error, value = list(_tensors([arguments, keywords])), "", None
    leaves = [_leaf(tensor) for tensor in given if tensor.requires_grad]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            value = function(*arguments, **keywords)
            if isinstance(value, types.GeneratorType):
                value = list(itertools.islice(value, LONGEST))
        except BaseException as raised:
            error = type(raised).__name__
    returned = list(_tensors(value))
    after = list(_tensors([arguments, keywords]))
    memories = [_memory(tensor) for tensor in [*returned, *after][:PAIRED]]
    shared = [one == other for one, other in itertools.combinations(memories, 2)]
    made = [tensor for tensor in after if not any(tensor is one for one in given)]
    recorded = [tensor.requires_grad for tensor in [*returned, *made]]
    gradients = _gradients(returned, leaves)
    return CallOutcome(error, value, [arguments, keywords], printed.getvalue(), gradients, recorded, shared)


def same(first: Any, second: Any, depth: int = 0) -> bool:
    """Returns whether two values are of one type and equal, to the last digits of floating point numbers."""
    if first is second:
        return True
    if type(first).__qualname__ != type(second).__qualname__ or depth > 20:
        return False
    if isinstance(first, torch.Tensor):
        return _same_tensor(first, second)
    if isinstance(first, (float, complex)):
        return bool(
            first == second or abs(first - second) <= CLOSE * abs(first) or (first != first and second != second)
        )
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(same(a, b, depth + 1) for a, b in zip(first, second, strict=True))
    if isinstance(first, dict):
        return list(first) == list(second) and all(same(first[key], second[key], depth + 1) for key in first)
    if hasattr(first, "dtype") and hasattr(first, "shape") and hasattr(first, "tolist"):
        return (first.dtype, first.shape) == (second.dtype, second.shape) and same(first.tolist(), second.tolist())
    if hasattr(first, "equals"):
        return bool(first.equals(second))  # pandas
    if type(first).__eq__ is object.__eq__ and hasattr(first, "__dict__") and not inspect.isroutine(first):
        return same(vars(first), vars(second), depth + 1)
    return _equal(first, second)


def _equal(first: Any, second: Any) -> bool:
    try:
        return bool(first == second)
    except Exception:  # noqa: BLE001 - what cannot be compared is not known to be equal
        return False


def _same_tensor(first: torch.Tensor, second: torch.Tensor) -> bool:
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return False
    if first.is_floating_point() or first.is_complex():
        return torch.allclose(first.detach(), second.detach(), rtol=1e-6, atol=1e-8, equal_nan=True)
    return torch.equal(first, second)


def copied(value: Any) -> Any:
    """Returns a copy that no call can reach from the original; what cannot be copied is shared."""
    # deepcopy refuses a tensor that is no leaf, so all tensors in containers are copied before.
    memo = {id(tensor): _copied_tensor(tensor) for tensor in _tensors(value) if type(tensor) is torch.Tensor}
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # noqa: BLE001 - open files, locks, connections
        return value


def _copied_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a leaf for a leaf; else the clone of a leaf, which may be written into."""
    leaf = tensor.detach().clone().requires_grad_(tensor.requires_grad)
    return leaf if tensor.is_leaf else leaf.clone()


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the leaf that `_copied_tensor` cloned, or the tensor."""
    return tensor if tensor.grad_fn is None else tensor.grad_fn.next_functions[0][0].variable  # type: ignore[union-attr]


def _tensors(value: Any, seen: set[int] | None = None) -> Iterator[torch.Tensor]:
    """Yields the tensors in a value; a container may hold itself."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        yield value
    for item in _items(value):
        yield from _tensors(item, seen)


def _items(value: Any) -> list[Any]:
    """Returns what a container or an object holds; a module of PyTorch keeps its parameters in a dictionary."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple)):
        return list(value)
    plain = isinstance(value, (type, types.ModuleType, torch.Tensor)) or inspect.isroutine(value)
    return [] if plain else list(getattr(value, "__dict__", {}).values())


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _gradients(returned: list[torch.Tensor], leaves: list[torch.Tensor]) -> list[Any]:
    """Returns the leaves' gradients, or the error's name where backward raises."""
    roots = [tensor for tensor in returned if tensor.requires_grad and tensor.is_floating_point()]
    if not leaves or not roots:
        return []
    weighted = [(tensor * torch.linspace(0.5, 1.5, tensor.numel()).reshape(tensor.shape)).sum() for tensor in roots]
    try:
        return list(torch.autograd.grad(torch.stack(weighted).sum(), leaves, allow_unused=True))
    except Exception as error:  # noqa: BLE001 - an answer may define a backward of its own
        return [type(error).__name__]


def seed_all() -> None:
    """Puts the random states of Python, PyTorch and NumPy at their beginning."""
    random.seed(0)
    torch.manual_seed(0)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(0)
