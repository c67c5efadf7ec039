"""Compare the backward of each custom Function with finite differences of its forward.

A difference can be intended, as in a straight-through estimator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from autograder.tape.internals.entry_points import replaced_apply
from autograder.tape.oracle.single_slope import SlopeAnswer, examine, examine_twice, in_double
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.once import run_once
from autograder.tape.run.programs.program import Program

CALLS = 8  # of the same Function that are compared, because all calls use the same formulas
LARGEST = 1 << 16  # largest number of elements in the arguments of a compared call
WORST = ("wrong", "unknown", "choice", "slope")


@dataclass(frozen=True)
class CheckedFunction:
    """A custom Function that ran, and the result of the comparison.

    Attributes:
        place: line of its backward; line 0 for a Function of a library (such as a reentrant checkpoint).
    """

    name: str
    place: Place
    found: SlopeAnswer

    @property
    def is_own(self) -> bool:
        """Whether the user's code defines the Function."""
        return self.place.line > 0


class _Call(NamedTuple):
    function: type[torch.autograd.Function]
    arguments: tuple[Any, ...]


def check_custom_functions(
    program: Program, seconds: float, calls: int | None = None, *, twice: bool = False
) -> list[CheckedFunction]:
    """Return the custom Functions that a program calls, each with the worst result of its calls.

    Args:
        seconds: time limit of the run that collects the calls.
        calls: number of backward calls after which that run ends; None for no limit.
        twice: compare the derivative of the backward instead, as `create_graph=True` computes it.
    """
    noted: list[_Call] = []
    run_once(program, around=lambda: _noted(noted), seconds=seconds, calls=calls)
    found: dict[type, SlopeAnswer] = {}
    for call in noted:
        answer, before = _examined(call, examine_twice if twice else examine), found.get(call.function)
        if before is None or WORST.index(answer.answer) < WORST.index(before.answer):
            found[call.function] = answer
    return [CheckedFunction(one.__name__, _place(program, one), answer) for one, answer in found.items()]


def _place(program: Program, function: type[torch.autograd.Function]) -> Place:
    code = getattr(function.backward, "__code__", None)
    if code is None or not program.owns(code.co_filename):
        return Place("", 0, "")
    return Place(
        program.shown(code.co_filename), code.co_firstlineno + (1 if _is_decorated(function) else 0), "def backward"
    )


def _is_decorated(function: type[torch.autograd.Function]) -> bool:
    return isinstance(vars(function).get("backward"), staticmethod)


@contextmanager
def _noted(calls: list[_Call]) -> Iterator[None]:
    def noting(apply):
        def noted(function, *arguments):
            numbers = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
            known = sum(call.function is function for call in calls)
            if known < CALLS and sum(tensor.numel() for tensor in numbers) <= LARGEST:
                calls.append(_Call(function, tuple(in_double(argument) for argument in arguments)))
            return apply(function, *arguments)

        return noted

    with replaced_apply(noting):
        yield


def _examined(call: _Call, examined: Callable[..., SlopeAnswer]) -> SlopeAnswer:
    varied = [place for place, one in enumerate(call.arguments) if isinstance(one, torch.Tensor) and one.requires_grad]

    def alone(*values: torch.Tensor) -> Any:
        arguments = list(call.arguments)
        for place, value in zip(varied, values, strict=True):
            arguments[place] = value.clone()  # the forward may modify its argument in place
        return call.function.apply(*arguments)

    return examined(alone, [call.arguments[place] for place in varied]) if varied else SlopeAnswer("slope")
