"""Run a program with the in-place modifications that PyTorch forbids, of leaves and of views from multi-output functions."""

from __future__ import annotations

import re
from collections.abc import Callable

import torch
from torch.overrides import TorchFunctionMode

from autograder.errors import message_of
from autograder.tape.internals.tensor_fields import is_view
from autograder.tape.run.function_mode import tensors
from autograder.tape.run.graph_walk import leaves_below, nodes_below

REFUSED = "leaf Variable that requires grad is being used in an in-place operation"  # PyTorch 2.13 and 2.15
# PyTorch 2.6 to 2.15 refuse to modify these views.
REFUSED_VIEWS = re.compile("a view of a leaf Variable|is a view and is being modified|Can't detach views")
FEW = 8  # number of operations in a moving average of two parameters


class PermittedLeafWrites(TorchFunctionMode):
    """A function mode that executes the in-place operations on leaves which PyTorch forbids.

    If the new value itself requires grad, it is not written under `no_grad`, because its graph would be lost and with
    it the intended computation. A leaf that is not a parameter is first replaced by a copy that has a `grad_fn`. For a
    parameter (as in the inner step of MAML), the error is raised.
    """

    def __torch_function__(self, func, _types, args=(), kwargs=None):
        try:
            return func(*args, **(kwargs or {}))
        except RuntimeError as error:
            if args and isinstance(args[0], torch.Tensor) and may_be_copied(args[0], message_of(error)):
                return _write_into_copy(func, error, *args, **(kwargs or {}))
            if REFUSED not in message_of(error):
                raise
            written, *others = tensors([args, kwargs or {}])
            # `view[0] += 1` ends with an assignment of the view to itself, which adds no new input to its graph.
            needing = [one for one in others if one.requires_grad and not shares_memory(written, one)]
            if needing and not is_average(written, needing):
                if isinstance(written, torch.nn.Parameter) or not written.is_leaf:
                    raise
                _give_history(written)
                return func(*args, **(kwargs or {}))
            with torch.no_grad():
                return func(*args, **(kwargs or {}))


class SingleViews(TorchFunctionMode):
    """A function mode that replaces views that PyTorch refuses to modify with single views, taken while recording is on.

    These are the views of multi-output functions (`split`, `chunk`, `unbind`, iteration), and views taken under `no_grad`.
    A modification of a single view of the same elements reaches the base and its graph (torch 2.13, docs "Tensor Views").
    """

    def __torch_function__(self, func, _types, args=(), kwargs=None):
        if func is torch.Tensor.__iter__:
            return iter(self.__torch_function__(torch.Tensor.unbind, (), args))
        result = func(*args, **(kwargs or {}))
        parts = [result] if isinstance(result, torch.Tensor) and not torch.is_grad_enabled() else result
        if not isinstance(parts, list | tuple) or not all(isinstance(one, torch.Tensor) for one in parts):
            return result
        split, asked = next(iter(tensors([args, kwargs or {}])), None), torch.is_grad_enabled()
        if split is None or not all(
            is_view(one) and (one.requires_grad or not asked) and shares_memory(split, one) for one in parts
        ):
            return result
        with torch.enable_grad():
            single = [split.as_strided(one.shape, one.stride(), one.storage_offset()) for one in parts]
        return single[0] if parts is not result else type(result)(single)


def is_average(written: torch.Tensor, values: list[torch.Tensor]) -> bool:
    """Return whether a parameter receives values that were computed in a few operations from parameters of its shape only."""
    nodes, leaves = nodes_below(tuple(values)), leaves_below(tuple(values))
    of_parameters = all(isinstance(one, torch.nn.Parameter) and one.shape == written.shape for one in leaves)
    return isinstance(written, torch.nn.Parameter) and of_parameters and len(nodes) - len(leaves) <= FEW


def shares_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors share a storage."""
    return one is other or one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def may_be_copied(view: torch.Tensor, message: str) -> bool:
    """Return whether a copy of a refused view has the meaning of the modification, which cannot reach its base."""
    is_expanded = any(size > 1 and not stride for size, stride in zip(view.shape, view.stride(), strict=True))
    return REFUSED_VIEWS.search(message) is not None and (is_expanded or "of a leaf" not in message)


def _write_into_copy(func: Callable, error: RuntimeError, view: torch.Tensor, *args, **options) -> torch.Tensor:
    """Modify a copy of a view, and let the program's object refer to the copy."""
    fresh = view.clone()
    func(fresh, *args, **options)
    try:
        torch.utils.swap_tensors(view, fresh)
    except RuntimeError:
        raise error from None
    return view


def _give_history(leaf: torch.Tensor) -> None:
    """Turn a leaf into the result of a copy of a new leaf with the same values. The new leaf receives the gradient."""
    origin = leaf.detach().clone().requires_grad_()
    leaf.requires_grad_(False).copy_(origin)
