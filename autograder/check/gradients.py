"""The comparison of an answer's gradients with the expected ones, and the modification that made them wrong."""

from __future__ import annotations

from typing import NoReturn

import torch

from autograder.check.attempt_picture import Attempt
from autograder.check.expected import Expected
from autograder.check.lost_paths import find_reader
from autograder.check.message import Incorrect, message
from autograder.check.named_lines import line_of_memory
from autograder.check.subject.call_report import Array, Report, array
from autograder.check.values import ABSOLUTE, close, format_values
from autograder.locale.translations import translated


def compare_gradients(exercise: str, report: Report, expected: Expected, attempt: Attempt) -> None:
    """Raise Incorrect at the first leaf whose gradient is missing, wrong, or must not exist."""
    for name, right in expected.gradients.items():
        got = report.gradients.get(name)
        if got is None and right.abs().max() <= ABSOLUTE:
            continue  # if the value does not depend on a leaf, its gradient may be None or zeros
        if got is None:
            raise Incorrect(
                message(
                    translated("{exercise}: {name} received no gradient", exercise=exercise, name=name),
                    saw=translated("{name}.grad is None", name=name),
                    expected=translated("the gradient of the value with respect to {name}", name=name),
                    look_at=attempt.blame(name, is_missing=True)
                    or translated("where the path from the result back to {name} is cut", name=name),
                ),
                judges_gradients=True,
            )
        if not close(got, right):
            _raise_wrong_gradient(exercise, name, got, right, expected, attempt)
    for name, argument in expected.call.arguments.items():
        got = report.gradients.get(name) if argument.kind == "frozen" else None
        if got is not None:  # an all-zero gradient counts: momentum or weight decay would still update it
            raise Incorrect(
                message(
                    translated(
                        "{exercise}: {name} received a gradient, but must not be trained",
                        exercise=exercise,
                        name=name,
                    ),
                    saw=f"{name}.grad = {format_values(got)}",
                    expected=translated("{name}.grad is None", name=name),
                    look_at=attempt.name_line(find_reader, name)
                    or translated("which paths lead from the result back to {name}, and where to cut them", name=name),
                ),
                judges_gradients=True,
            )


def _raise_wrong_gradient(
    exercise: str, name: str, got: Array, right: torch.Tensor, expected: Expected, attempt: Attempt
) -> NoReturn:
    memory = ", ".join(expected.call.memory_cotangents)
    if memory:  # the same call was right as long as backward did not start from the modified arguments
        verdict = translated("{name} holds new values with the wrong history", name=memory)
        wanted = translated("a gradient that takes the write into {name} into account", name=memory)
        where = attempt.name_line(line_of_memory, next(iter(expected.call.memory_cotangents))) or translated(
            "how {name} is written: under no_grad or through .data it keeps its old history, and a detached tensor in "
            "the write has none",
            name=memory,
        )
    else:
        verdict = translated("the gradient of {name} is wrong (and no error was raised)", name=name)
        values = format_values(array(right), got)
        wanted = translated("{values}, computed with finite differences", values=values)
        where = attempt.blame(name) or translated(
            "the operations between {name} and the result: one is detached or has the wrong derivative", name=name
        )
    raise Incorrect(
        message(
            f"{exercise}: {verdict}",
            saw=f"{name}.grad = {format_values(got, array(right))}",
            expected=wanted,
            look_at=where,
        ),
        judges_gradients=True,
    )
