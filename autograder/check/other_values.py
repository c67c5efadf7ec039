"""The first line of an answer at which a name gets other values than in the original program."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from autograder.check.named_lines import name_at, own_steps, return_statement
from autograder.check.subject.call_report import Array, Call
from autograder.check.subject.subjects import LocalSubject
from autograder.locale.translations import in_english
from autograder.tape.observe.graph.tensors import values_text
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


def find_other_values(recording: Recording, original: Recording, as_listed: bool = False) -> NamedLine | None:
    """Return the first line at which a name gets values that it does not have in the original, or None.

    Values that differ only in their shape count if no others differ.

    Only names whose final values never occur in the original count, because an answer may compute the right values in
    another way.
    """
    known, steps = _held(original, as_listed), recording.steps
    found = [
        (first, name)
        for name, mine in _held(recording, as_listed).items()
        if name in known and mine[-1].values not in {one.values for one in known[name]}
        for first in [_first_other(mine, known[name])]
    ]
    order = {place: index for index, place in reversed(list(enumerate(step.place for step in steps)))}
    if not found:
        return None if as_listed else find_other_values(recording, original, as_listed=True)
    place, name = min(found, key=lambda one: order[one[0]])
    return NamedLine(place, in_english("{name} gets other values here than in the original program", name=name))


def find_swapped(recording: Recording, path: str, right: Array) -> NamedLine | None:
    """Return the return statement of an answer if another name has the values that this one should return, else None."""
    found, values = return_statement(recording), values_text(right.tensor())
    if found is None or not values:
        return None
    ended, returned = found
    name, values = name_at(returned, path), _unsigned(values)
    held = {other: _unsigned(mine[-1].values) for other, mine in _held(recording).items()}
    if name not in held or held[name] == values or values not in held.values():
        return None
    return NamedLine(
        ended.place, in_english("another name has the values of the task, and this line returns {name}", name=name)
    )


def _unsigned(values: str) -> str:
    """Return a text of values with zeros without a sign."""
    return re.sub(r"-0(?=[,\]]|$)", "0", values)


def _first_other(mine: list[Held], original: list[Held]) -> Place:
    """Return the first place at which the values differ; if their numbers differ, the place of the last value."""
    if len(mine) != len(original):
        return mine[-1].place
    return next(own.place for own, other in zip(mine, original, strict=True) if own.values != other.values)


def _held(recording: Recording, as_listed: bool = True) -> dict[str, list[Held]]:
    """Return, for each name, its successive values in the function itself; their brackets only with `as_listed`."""
    own = {step.index for step in own_steps(recording)}
    names: dict[str, int | None] = {}
    values: dict[int, str] = {}
    held: dict[str, list[Held]] = {}
    for step in recording.steps:
        values |= {one.tensor: one.values if as_listed else re.sub(r"[][]", "", one.values) for one in step.states}
        names |= {change.name: change.tensor for change in step.names if change.tensor is not None}
        for name, tensor in names.items() if step.index in own else ():
            now, before = values.get(tensor or 0), held.setdefault(name, [])
            if now is not None and (not before or before[-1].values != now):
                before.append(Held(now, step.place))
    return {name: found for name, found in held.items() if found}
