"""The first line of an answer at which a name gets other values than in the original program."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from autograder.check.named_lines import own_steps, return_statement
from autograder.check.subject.call_report import Call
from autograder.check.subject.subjects import LocalSubject
from autograder.locale.translations import in_english
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import NamedLine, Place


class Held(NamedTuple):
    """The values of a name from a line on, as the recording formats them."""

    values: str
    place: Place


def record_original(program: Callable[..., object], call: Call) -> Recording | None:
    """Return the recording of the original program's forward, in which no tensor requires grad; None if it raises."""
    plain = Call(call.arguments, call.options, call.parameters, training=call.training, differentiate=False)
    recording = LocalSubject(program).recording(plain)
    return recording if recording is not None and return_statement(recording) else None


def find_other_values(recording: Recording, original: Recording) -> NamedLine | None:
    """Return the first line at which a name gets values that it does not have in the original, or None.

    Only names whose final values never occur in the original count, because an answer may compute the right values in
    another way.
    """
    known, steps = _held(original), recording.steps
    found = [
        (first, name)
        for name, mine in _held(recording).items()
        if name in known and mine[-1].values not in {one.values for one in known[name]}
        for first in [_first_other(mine, known[name])]
    ]
    order = {place: index for index, place in reversed(list(enumerate(step.place for step in steps)))}
    if not found:
        return None
    place, name = min(found, key=lambda one: order[one[0]])
    return NamedLine(place, in_english("{name} gets other values here than in the original program", name=name))


def _first_other(mine: list[Held], original: list[Held]) -> Place:
    """Return the first place at which the values differ; if their numbers differ, the place of the last value."""
    if len(mine) != len(original):
        return mine[-1].place
    return next(own.place for own, other in zip(mine, original, strict=True) if own.values != other.values)


def _held(recording: Recording) -> dict[str, list[Held]]:
    """Return, for each name, its successive values in the function itself."""
    own = {step.index for step in own_steps(recording)}
    names: dict[str, int | None] = {}
    values: dict[int, str] = {}
    held: dict[str, list[Held]] = {}
    for step in recording.steps:
        values |= {state.tensor: state.values for state in step.states}
        names |= {change.name: change.tensor for change in step.names if change.tensor is not None}
        for name, tensor in names.items() if step.index in own else ():
            now, before = values.get(tensor or 0), held.setdefault(name, [])
            if now is not None and (not before or before[-1].values != now):
                before.append(Held(now, step.place))
    return {name: found for name, found in held.items() if found}
