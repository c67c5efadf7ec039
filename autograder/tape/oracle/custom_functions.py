"""Whether the backwards of custom Functions are the slopes of their forwards, or deliberately not (a straight-through estimator)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.autograd.gradcheck import gradcheck

from autograder.tape.internals.entry_points import replaced_apply
from autograder.tape.run.once import run_once
from autograder.tape.run.program import Program

CALLS = 8  # of one Function that are looked at: the same formulas are used in every call
LARGEST = 1 << 16  # elements of the arguments of a call that is looked at


class _Call(NamedTuple):
    function: type[torch.autograd.Function]
    arguments: tuple[Any, ...]


def backwards_are_slopes(program: Program, seconds: float) -> bool:
    """Returns whether finite differences of every custom forward, alone, agree with its backward."""
    calls: list[_Call] = []
    run_once(program, around=lambda: _noted(calls), seconds=seconds)
    return all(_is_slope(call) for call in calls)


@contextmanager
def _noted(calls: list[_Call]) -> Iterator[None]:
    def noting(apply):
        def noted(function, *arguments):
            numbers = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
            known = sum(call.function is function for call in calls)
            if known < CALLS and sum(tensor.numel() for tensor in numbers) <= LARGEST:
                calls.append(_Call(function, tuple(_in_double(argument) for argument in arguments)))
            return apply(function, *arguments)

        return noted

    with replaced_apply(noting):
        yield


def _in_double(argument: object) -> object:
    if not isinstance(argument, torch.Tensor):
        return argument
    copy = argument.detach().clone()
    return copy.double().requires_grad_(argument.requires_grad) if copy.is_floating_point() else copy


def _is_slope(call: _Call) -> bool:
    varied = [place for place, one in enumerate(call.arguments) if isinstance(one, torch.Tensor) and one.requires_grad]

    def alone(*values: torch.Tensor) -> Any:
        arguments = list(call.arguments)
        for place, value in zip(varied, values, strict=True):
            arguments[place] = value.clone()  # the forward may write into it
        return call.function.apply(*arguments)

    try:
        inputs = [call.arguments[place] for place in varied]
        return not inputs or gradcheck(alone, inputs, raise_exception=False, check_undefined_grad=False, fast_mode=True)
    except Exception:  # it cannot work in double precision, or on its own: nothing is known of it
        return False
