"""Listen to every PyTorch function that the program calls, with its arguments and results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from autograder.tape.internals.entry_points import METADATA, function_name, wrapping
from autograder.tape.internals.mode_stack import is_active
from autograder.tape.internals.tensor_fields import mode_paused


def tensors(value: object, depth: int = 3) -> list[torch.Tensor]:
    """Return the tensors among a call's arguments or results, including those in lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        return [value]
    listed: list[torch.Tensor] = []
    # This runs at each call of a traced program, in which each Python call is slow.
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        if isinstance(item, torch.Tensor):
            listed.append(item)
        elif depth > 1 and isinstance(item, list | tuple | dict):
            listed += tensors(item, depth - 1)
    return listed


def input_tensors(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> list[torch.Tensor]:
    """Return the tensors among the arguments of a call, without the earlier copies, which `copy.deepcopy` passes to each call."""
    inputs = tensors(args[:1] if name == "__deepcopy__" else args)
    return inputs + tensors(options) if options else inputs


class CallMode(TorchFunctionMode):
    """A function mode that can continue to listen inside a call that it handles."""

    def __init__(self) -> None:
        super().__init__()
        self._handling = 0

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Mark the handling of a call."""
        self._handling += 1
        try:
            yield
        finally:
            self._handling -= 1

    @contextmanager
    def enabled_again(self) -> Iterator[None]:
        """Enable the mode in the block even while a call is handled, when PyTorch disables it: a user's hooks run inside `backward`."""
        if not self._handling:
            yield
            return
        handling, self._handling = self._handling, 0
        try:
            with self:
                yield
        finally:
            self._handling = handling

    @contextmanager
    def recorded_calls(self) -> Iterator[None]:
        """Also report `set_`, `from_numpy` and `frombuffer`, which no function mode receives (PyTorch 2.13)."""

        def recorded(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            # Other threads have modes of their own; inside another call, PyTorch disables this one.
            if not is_active(self):
                return original(*args, **kwargs)
            with mode_paused():  # as PyTorch does for the calls that a mode receives
                return self.__torch_function__(original, (), args, kwargs)

        with ExitStack() as calls:
            for owner, name in (torch.Tensor, "set_"), (torch, "from_numpy"), (torch, "frombuffer"):
                calls.enter_context(wrapping(owner, name, recorded))
            yield


class Functions(CallMode):
    """A function mode that calls `before(name, tensors)` and `after(name, tensors, result, count)` around each call.

    If `before` returns True, `after` is called only for results that require grad. `frozen` is called after an assignment
    to `requires_grad`. A function mode changes neither version counters nor the graph (torch 2.13).
    """

    def __init__(
        self,
        before: Callable[[str, list[Any]], bool | None],
        after: Callable[[str, list[Any], object, int], None],
        frozen: Callable[[torch.Tensor], object] = lambda _leaf: None,
    ):
        super().__init__()
        self.before, self.after, self.frozen = before, after, frozen
        self.count = -1  # number of the last call, which is the same in each run of a deterministic program
        self.counted = 0  # number of calls that were not ignored, and can have changed something
        self.numbers: list[float] = []  # floats among the arguments of the last call
        self.only_counts = False  # whether calls are only counted

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        if self.only_counts:
            with self.handled():
                return func(*args, **(kwargs or {}))
        count, name, options = self.count, function_name(func), kwargs or {}
        if not name or name in METADATA:
            result = func(*args, **options)
            if getattr(func, "__name__", "") == "__set__":
                self.counted += 1
                if func.__self__.__name__ == "requires_grad":
                    self.frozen(args[0])
            return result
        self._handling += 1
        try:
            inputs = input_tensors(name, args, options)
            if "out" in options:
                inputs[:0] = tensors(options["out"])
            is_ignored = self.before(name, inputs)
            self.counted += not is_ignored
            result = func(*args, **options)
            if is_ignored and not any([tensor.requires_grad for tensor in tensors(result)]):
                return result
            self.numbers = [argument for argument in args if isinstance(argument, float)]
            self.after(name, inputs, result, count)
            return result
        finally:
            self._handling -= 1
