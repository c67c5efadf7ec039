"""What an answer should give, computed without it: the values of the given program, and gradients by finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import torch

from autograder.check.subject.call_report import Argument, Array, Call, Report, array
from autograder.check.subject.inputs import Decisive, Generator
from autograder.check.subject.subjects import LocalSubject
from autograder.errors import InputError
from autograder.tape.oracle.reference_gradients import finite_differences


class BrokenExercise(InputError):
    """The exercise's own program does not run: a mistake of the author, not of the learner."""


class Expected(NamedTuple):
    """One trial: the call to make, the values that must come back and be left in memory, and the right gradients.

    Attributes:
        written: the tensors of the caller that the call has to write into.
        through_memory: the same call and gradients where backward starts from these tensors too, as the caller may let it; None for none.
    """

    call: Call
    values: Report
    gradients: dict[str, torch.Tensor]
    written: tuple[str, ...] = ()
    through_memory: Expected | None = None


class Trials:
    """The trials of one check, drawn in order from one seed, each when it is first needed."""

    def __init__(self) -> None:
        self._generator = Generator()
        self._drawn: list[Expected] = []

    def get(
        self,
        number: int,
        like: Callable[..., Any],
        inputs: dict[str, Any],
        options: dict[str, Any],
        decisive: Decisive = None,
    ) -> Expected:
        """Returns the trial with this number, counted from 0."""
        while len(self._drawn) <= number:
            # A module in its other mode once: an answer may not compute one thing in training and another in evaluation.
            training = len(self._drawn) != 1
            self._drawn.append(trial(like, inputs, options, self._generator, training, decisive))
        return self._drawn[number]


def trial(
    like: Callable[..., Any],
    inputs: dict[str, Any],
    options: dict[str, Any],
    generator: Generator,
    training: bool = True,
    decisive: Decisive = None,
) -> Expected:
    """Returns a newly drawn call and the results that `like` gives for it.

    Only the forward of `like` is ever run, with nothing requiring grad, so its in-place faults have no effect: its values
    are those of the formula that it implements, and finite differences of these values are the right gradients.
    """
    call = Call(
        generator.arguments(inputs, decisive), options, _parameters(like, options, generator), training=training
    )
    oracle = LocalSubject(like)
    values = _values(oracle, call)
    cotangents = {
        name: array(generator.like(output.tensor()))
        for name, output in values.outputs.items()
        if "float" in output.dtype
    }
    call = msgspec.structs.replace(call, cotangents=cotangents)
    found = Expected(call, values, _gradients(oracle, call), _written(call, values))
    pulled = {
        name: array(generator.like(call.arguments[name].values.tensor()))
        for name in found.written
        if call.arguments[name].kind == "result"
    }
    if not pulled:
        return found
    both = msgspec.structs.replace(call, memory_cotangents=pulled)
    return found._replace(through_memory=found._replace(call=both, gradients=_gradients(oracle, both)))


def _written(call: Call, values: Report) -> tuple[str, ...]:
    return tuple(name for name, argument in call.arguments.items() if values.after[name].data != argument.values.data)


def _parameters(like: Callable[..., Any], options: dict[str, Any], generator: Generator) -> dict[str, Array]:
    if not isinstance(like, type):
        return {}
    return {name: array(generator.like(parameter)) for name, parameter in like(**options).named_parameters()}


def _values(oracle: LocalSubject, call: Call) -> Report:
    report = oracle.call(msgspec.structs.replace(call, cotangents={}, memory_cotangents={}, differentiate=False))
    if report.problem is not None:
        raise BrokenExercise(f"the exercise's own program raises {report.problem.type}: {report.problem.message}")
    return report


def _gradients(oracle: LocalSubject, call: Call) -> dict[str, torch.Tensor]:
    """Returns the gradient of (outputs · cotangents + memory · its cotangents) with respect to every leaf, result and parameter."""
    points = {
        name: argument.values.tensor()
        for name, argument in call.arguments.items()
        if argument.kind in ("leaf", "result")
    }
    points |= {name: values.tensor() for name, values in call.parameters.items()}

    def objective(**moved: torch.Tensor) -> torch.Tensor:
        found = _values(oracle, _replace_inputs(call, moved))
        pulled = [(found.outputs[name], cotangent) for name, cotangent in call.cotangents.items()]
        pulled += [(found.after[name], cotangent) for name, cotangent in call.memory_cotangents.items()]
        pulls = [(value.tensor() * cotangent.tensor()).sum() for value, cotangent in pulled]
        return torch.stack(pulls).sum() if pulls else torch.zeros(())

    return finite_differences(objective, points)


def _replace_inputs(call: Call, moved: dict[str, torch.Tensor]) -> Call:
    arguments = {
        name: Argument(argument.kind, array(moved[name])) if name in moved else argument
        for name, argument in call.arguments.items()
    }
    parameters = {name: array(moved[name]) for name in call.parameters}
    return msgspec.structs.replace(call, arguments=arguments, parameters=parameters)


def slope(function: Callable[[torch.Tensor], torch.Tensor], at: torch.Tensor) -> torch.Tensor:
    """Returns the gradient of a scalar function at a point, by finite differences: for formulas that check cells compare with."""
    return finite_differences(lambda point: function(point), {"point": at})["point"]
