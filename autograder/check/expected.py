"""The expected results of an answer: values of a given program line by line, and gradients by finite differences."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import torch

from autograder.check.answer_lines import lines_of
from autograder.check.named_lines import function_steps, name_at, return_statement
from autograder.check.plan import require_known_names
from autograder.check.subject.call_report import Argument, Array, Call, Report, array
from autograder.check.subject.inputs import Decisive, Generator, SmallGenerator, TensorInput, UndecisiveInputs
from autograder.check.subject.subjects import LocalSubject
from autograder.errors import InputError
from autograder.locale.messages import Message
from autograder.tape.observe.tensors import values_text
from autograder.tape.oracle.gradient_comparison import finite_differences
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import NamedLine, Place


@dataclass(frozen=True)
class NamedValue:
    """The values of a name from a line on, as the recording formats them."""

    values: str
    place: Place


def record_original(program: Callable[..., object], call: Call) -> Recording | None:
    """Return the recording of the original program's forward, in which no tensor requires grad; None if it raises."""
    plain = Call(call.arguments, call.options, call.parameters, training=call.training, differentiate=False)
    recording = LocalSubject(program).recording(plain)
    return recording if recording is not None and return_statement(recording) else None


def find_other_values(recording: Recording, original: Recording, as_listed: bool = False) -> NamedLine | None:
    """Return the first line at which a name gets values that it does not have in the original, or None.

    Values that differ only in their shape count if no others differ.

    Only names whose final values never occur in the original count, because an answer may compute the right values in
    another way.
    """
    known, steps = _values_by_name(original, as_listed), recording.steps
    others = [
        (first, name)
        for name, mine in _values_by_name(recording, as_listed).items()
        if name in known and mine[-1].values not in {value.values for value in known[name]}
        for first in [_first_other(mine, known[name])]
    ]
    order = {place: index for index, place in reversed(list(enumerate(step.place for step in steps)))}
    if not others:
        return None if as_listed else find_other_values(recording, original, as_listed=True)
    place, name = min(others, key=lambda pair: order[pair[0]])
    message = Message("expected.other_values|{name} gets other values here than in the original program", name=name)
    return NamedLine(place, message)


def find_wrong_return(recording: Recording, path: str, right: Array) -> NamedLine | None:
    """Return the return statement of an answer if another name has the values that this one should return, else None."""
    statement, values = return_statement(recording), values_text(right.tensor())
    if statement is None or not values:
        return None
    ended, returned = statement
    name, values = name_at(returned, path), _unsigned(values)
    by_name = {other: _unsigned(mine[-1].values) for other, mine in _values_by_name(recording).items()}
    if name not in by_name or by_name[name] == values or values not in by_name.values():
        return None
    message = Message(
        "expected.other_name_returned|another name has the values of the task, and this line returns {name}", name=name
    )
    return NamedLine(ended.place, message)


def _unsigned(values: str) -> str:
    """Return a text of values with zeros without a sign."""
    return re.sub(r"-0(?=[,\]]|$)", "0", values)


def _first_other(mine: list[NamedValue], original: list[NamedValue]) -> Place:
    """Return the first place at which the values differ; if their numbers differ, the place of the last value."""
    if len(mine) != len(original):
        return mine[-1].place
    return next(here.place for here, there in zip(mine, original, strict=True) if here.values != there.values)


def _values_by_name(recording: Recording, as_listed: bool = True) -> dict[str, list[NamedValue]]:
    """Return, for each name, its successive values in the function itself; their brackets only with `as_listed`."""
    indexes = {step.index for step in function_steps(recording)}
    names: dict[str, int | None] = {}
    values: dict[int, str] = {}
    by_name: dict[str, list[NamedValue]] = {}
    for step in recording.steps:
        values |= {
            state.tensor: state.values if as_listed else re.sub(r"[][]", "", state.values) for state in step.states
        }
        names |= {change.name: change.tensor for change in step.names if change.tensor is not None}
        for name, tensor in names.items() if step.index in indexes else ():
            now, before = values.get(tensor or 0), by_name.setdefault(name, [])
            if now is not None and (not before or before[-1].values != now):
                before.append(NamedValue(now, step.place))
    return {name: texts for name, texts in by_name.items() if texts}


ROUNDS = 3  # several rounds with new inputs, so that an answer cannot pass by luck or by remembering a call


class BrokenExercise(InputError):
    """The exercise's own program raises an error: a mistake of the author, not of the student."""


Afterwards = Callable[..., dict[str, torch.Tensor]] | None
"""Takes the arguments by name, and returns the values that some of them must have after the call."""


@dataclass(frozen=True)
class Expected:
    """One trial: the call, the values that it must return and leave in memory, and the right gradients."""

    call: Call  # the call of the student's function
    values: Report  # the report of the reference for this call
    gradients: dict[str, torch.Tensor]  # name of a leaf, result or parameter → its right gradient
    written: tuple[str, ...] = ()  # the arguments that the call has to modify
    # the same trial with backward also starting from the modified arguments; None if no argument allows it
    with_memory_cotangents: Expected | None = None
    # returns the recording of the original program in the same call, computed on first use; None if that fails
    original: Callable[[], Recording | None] = lambda: None
    lines: tuple[str, ...] = ()  # the lines of the original program

    @property
    def parts(self) -> tuple[Expected, ...]:
        """This trial, and the one through memory if it exists."""
        return (self,) if self.with_memory_cotangents is None else (self, self.with_memory_cotangents)


class Trials:
    """The trials of one check, drawn in order from one seed, each on first use.

    The right values are those that `like` returns and leaves in its arguments; `afterwards` returns others for some
    arguments, so that a check cell need not contain a program that modifies them. The inputs are the keywords of the
    check: `TensorInput`s to draw, and options, which are passed unchanged.
    """

    def __init__(
        self,
        like: Callable[..., Any],
        given: Callable[..., Any],
        inputs: dict[str, Any],
        decisive: Decisive = None,
        afterwards: Afterwards = None,
    ) -> None:
        self._like, self._given, self._inputs = like, given, inputs
        self._decisive, self._afterwards = decisive, afterwards
        self._subject = LocalSubject(like)
        self._generator = Generator()
        self._drawn: list[Expected] = []

    def __iter__(self) -> Iterator[Expected]:
        for number in range(ROUNDS):
            if number == len(self._drawn):
                # One run uses the other mode of a module: an answer must compute the same in training and in evaluation mode.
                self._drawn.append(self._draw(training=number != 1))
            yield self._drawn[number]

    def small(self) -> Expected | None:
        """Return a trial with small integers, for a picture; None if they are not decisive, or gradients change abruptly there."""
        with contextlib.suppress(UndecisiveInputs, BrokenExercise):
            drawn = self._draw(training=True, generator=SmallGenerator())
            near = [self._gradients(_moved(drawn.call, step)) for step in (1e-4, -1e-4)]
            if all(torch.allclose(value, near[1][name], rtol=0.01, atol=0.01) for name, value in near[0].items()):
                return drawn
        return None

    def _draw(self, training: bool, generator: Generator | None = None) -> Expected:
        """Return a newly drawn call and its right results."""
        generator = generator or self._generator
        options = {name: value for name, value in self._inputs.items() if not isinstance(value, TensorInput)}
        arguments = generator.arguments(self._inputs, self._decisive)
        call = Call(arguments, options, _parameters(self._like, options, generator), training=training)
        values = self._values(call)
        floating = {name: output for name, output in values.outputs.items() if "float" in output.dtype}
        cotangents = {name: array(generator.like(output.tensor())) for name, output in floating.items()}
        call = msgspec.structs.replace(call, cotangents=cotangents)
        original = functools.cache(functools.partial(record_original, self._given, call))
        before = {name: argument.values.data for name, argument in call.arguments.items()}
        written = tuple(name for name, data in before.items() if values.after[name].data != data)
        expected = Expected(call, values, self._gradients(call), written, original=original, lines=self._lines)
        pulled = {
            name: array(generator.like(call.arguments[name].values.tensor()))
            for name in written
            if call.arguments[name].kind == "result"
        }
        if not pulled:
            return expected
        both = msgspec.structs.replace(call, memory_cotangents=pulled)
        return replace(expected, with_memory_cotangents=replace(expected, call=both, gradients=self._gradients(both)))

    def _values(self, call: Call) -> Report:
        """Return the right values of a call.

        Only the forward runs, and no tensor requires grad, so in-place faults have no effect: the values are those of the
        formula, and finite differences of these values are the right gradients.
        """
        report = self._subject.call(
            msgspec.structs.replace(call, cotangents={}, memory_cotangents={}, differentiate=False)
        )
        if report.problem is not None:
            require_known_names(report.problem.type, report.problem.message)
            raise BrokenExercise(f"the exercise's own program raises {report.problem.type}: {report.problem.message}")
        if self._afterwards is None:
            return report
        tensors = {name: argument.values.tensor() for name, argument in call.arguments.items()}
        values = {name: array(tensor) for name, tensor in self._afterwards(**tensors).items()}
        return msgspec.structs.replace(report, after=report.after | values)

    def _gradients(self, call: Call) -> dict[str, torch.Tensor]:
        """Return the gradient of (outputs · cotangents + memory · its cotangents) with respect to every leaf, result and parameter."""

        def objective(**moved: torch.Tensor) -> torch.Tensor:
            values = self._values(_replace_inputs(call, moved))
            pulled = [(values.outputs[name], cotangent) for name, cotangent in call.cotangents.items()]
            pulled += [(values.after[name], cotangent) for name, cotangent in call.memory_cotangents.items()]
            pulls = [(value.tensor() * cotangent.tensor()).sum() for value, cotangent in pulled]
            return torch.stack(pulls).sum() if pulls else torch.zeros(())

        return finite_differences(objective, _points(call))

    @functools.cached_property
    def _lines(self) -> tuple[str, ...]:
        return lines_of(self._given)


def _parameters(like: Callable[..., Any], options: dict[str, Any], generator: Generator) -> dict[str, Array]:
    if not isinstance(like, type):
        return {}
    return {name: array(generator.like(parameter)) for name, parameter in like(**options).named_parameters()}


def _points(call: Call) -> dict[str, torch.Tensor]:
    """Return the values of each leaf, result and parameter."""
    points = {name: argument.values for name, argument in call.arguments.items() if argument.kind in ("leaf", "result")}
    return {name: values.tensor() for name, values in (points | call.parameters).items()}


def _moved(call: Call, step: float) -> Call:
    """Return the call with each leaf, result and parameter moved a little, in the same directions for each step."""
    random = torch.Generator().manual_seed(0)
    moves = {name: (at, torch.randn(at.shape, generator=random, dtype=at.dtype)) for name, at in _points(call).items()}
    return _replace_inputs(call, {name: at + step * move for name, (at, move) in moves.items()})


def _replace_inputs(call: Call, moved: dict[str, torch.Tensor]) -> Call:
    arguments = {
        name: Argument(argument.kind, array(moved[name])) if name in moved else argument
        for name, argument in call.arguments.items()
    }
    parameters = {name: array(moved[name]) for name in call.parameters}
    return msgspec.structs.replace(call, arguments=arguments, parameters=parameters)


def slope(function: Callable[[torch.Tensor], torch.Tensor], at: torch.Tensor) -> torch.Tensor:
    """Return the gradient of a scalar function at a point, by finite differences, for use in check cells.

    Args:
        function: takes a tensor of the shape of `at` and returns a scalar tensor.
        at: the point.
    """
    return finite_differences(lambda point: function(point), {"point": at})["point"]
