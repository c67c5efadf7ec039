"""Find PyTorch operations whose derivative is wrong, by finite differences of single calls with the program's values."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autograder.tape.internals.heard_calls import function_name
from autograder.tape.oracle.single_slope import examine, in_double
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.function_mode import Hearing, tensors
from autograder.tape.run.once import run_once
from autograder.tape.run.programs.program import Program

CALLS = 2  # of the same operation that are compared
LARGEST = 1 << 12  # largest number of elements in the arguments of a compared call
# Functions written in Python call these, and may be estimators on purpose, as `gumbel_softmax(hard=True)` is.
BUILT_IN = ("builtin_function_or_method", "method_descriptor", "wrapper_descriptor")


@dataclass(frozen=True)
class WrongOperation:
    """An operation whose derivative disagrees with finite differences, and the line of its first call."""

    name: str
    place: Place


@dataclass(frozen=True)
class _OperationCall:
    function: Callable
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    place: Place


class _Noting(Hearing):
    """A function mode that stores the arguments of each operation that autograd records."""

    def __init__(self, program: Program):
        super().__init__()
        self.program = program
        self.calls: dict[str, list[_OperationCall]] = {}

    def __torch_function__(self, func, _types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if type(func).__name__ not in BUILT_IN:
            return func(*args, **kwargs)
        noted = self.calls.setdefault(function_name(func), []) if self._matters(func, args, kwargs) else None
        call = None
        if noted is not None and len(noted) < CALLS:
            copies = {name: in_double(value) for name, value in kwargs.items()}
            call = _OperationCall(func, tuple(in_double(one) for one in args), copies, self._place())
        result = func(*args, **kwargs)
        if call is not None and noted is not None and any(one.requires_grad for one in tensors(result)):
            noted.append(call)
        return result

    def _matters(self, func: Callable, args: tuple, kwargs: dict) -> bool:
        given = [*tensors(args), *tensors(kwargs)]
        small = sum(one.numel() for one in given) <= LARGEST and not any(one.is_complex() for one in given)
        return (
            bool(function_name(func)) and small and any(one.requires_grad for one in given) and torch.is_grad_enabled()
        )

    def _place(self) -> Place:
        frame = sys._getframe(1)
        while frame is not None and not self.program.owns(frame.f_code.co_filename):
            frame = frame.f_back  # type: ignore[assignment]
        return Place(self.program.shown(frame.f_code.co_filename), frame.f_lineno, "") if frame else Place("", 0, "")


def wrong_operations(program: Program, seconds: float, calls: int | None = None) -> list[WrongOperation]:
    """Return the operations whose derivative disagrees with finite differences.

    Args:
        seconds: time limit of the run that collects the arguments.
        calls: number of backward calls after which that run ends; None for no limit.
    """
    noting = _Noting(program)
    run_once(program, around=lambda: noting, seconds=seconds, calls=calls)
    found = []
    for name, noted in noting.calls.items():
        wrong = next((call for call in noted if _is_wrong(call)), None)
        if wrong is not None:
            found.append(WrongOperation(name, wrong.place))
    return found


def _is_wrong(call: _OperationCall) -> bool:
    varied = [one for one in (*tensors(call.arguments), *tensors(call.keywords)) if one.requires_grad]
    if not varied:
        return False

    def alone(*values: Tensor) -> Any:
        new = dict(zip(map(id, varied), values, strict=True))
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(0)
            return call.function(*_with(call.arguments, new), **_with(call.keywords, new))

    return examine(alone, varied).answer == "wrong"


def _with(value: Any, new: dict[int, Tensor]) -> Any:
    """Return the arguments with the tensors of `new` in place of the varied ones, and copies of the others."""
    if isinstance(value, Tensor):
        return new[id(value)].clone() if id(value) in new else value.clone()
    if type(value) in (list, tuple):
        return type(value)(_with(one, new) for one in value)
    return {name: _with(one, new) for name, one in value.items()} if type(value) is dict else value
