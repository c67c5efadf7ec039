"""An answer's gradients beside those found without it, and the write that made them wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import torch

from autograder.check.expected import Expected
from autograder.check.message import Incorrect, message
from autograder.check.subject.call_report import Array, Report, array
from autograder.check.values import ABSOLUTE, close, format_values
from autograder.tape.atlas.answers import words_on_node
from autograder.tape.recording.verdict_types import Harm


def compare_gradients(exercise: str, report: Report, expected: Expected, harm: Callable[[], Harm | None]) -> None:
    """Raises Incorrect at the first leaf whose gradient is missing, wrong, or not wanted; `harm` finds the write that did it."""
    for name, right in expected.gradients.items():
        got = report.gradients.get(name)
        if got is None and right.abs().max() <= ABSOLUTE:
            continue  # a leaf that the value does not depend on may have no gradient, or zeros
        if got is None:
            raise Incorrect(
                message(
                    f"{exercise}: no gradient arrived at {name}",
                    saw=f"{name}.grad is None",
                    expected=f"the gradient of the value with respect to {name}",
                    look_at=f"where the path from the result back to {name} is cut",
                )
            )
        if not close(got, right):
            _raise_wrong_gradient(exercise, name, got, right, expected, harm)
    for name, argument in expected.call.arguments.items():
        got = report.gradients.get(name) if argument.kind == "frozen" else None
        if got is not None and got.tensor().abs().max() > ABSOLUTE:
            raise Incorrect(
                message(
                    f"{exercise}: a gradient arrived at {name}, which is not to be trained",
                    saw=f"{name}.grad = {format_values(got)}",
                    expected=f"no gradient for {name}",
                    look_at=f"which paths lead from the result back to {name}, and where to cut them",
                )
            )


def _raise_wrong_gradient(
    exercise: str, name: str, got: Array, right: torch.Tensor, expected: Expected, harm: Callable[[], Harm | None]
) -> NoReturn:
    memory = ", ".join(expected.call.memory_cotangents)
    if memory:  # the same call was right before backward started in the caller's memory, too
        verdict = f"{memory} has new values, but autograd does not know of the write"
        wanted = f"a gradient that takes the write into {memory} into account"
        where = f"how {memory} is written: under no_grad, or through .data, the caller's {memory} keeps its old history"
    else:
        verdict = f"the gradient of {name} is wrong, and nothing warned you"
        wanted = format_values(array(right), got) + ", the slope found by finite differences"
        where = describe(harm()) or f"each path from the result back to {name}: one is cut, or gives another slope"
    raise Incorrect(
        message(
            f"{exercise}: {verdict}",
            saw=f"{name}.grad = {format_values(got, array(right))}",
            expected=wanted,
            look_at=where,
        )
    )


def describe(harm: Harm | None) -> str:
    """Returns the write that did harm, what it harmed, and what the operation that saved it keeps; "" for none."""
    if harm is None or not harm.mutated_at:
        return ""
    place = harm.mutated_at[-1]
    needed = f"{harm.tensor}, which {harm.saved_by} keeps for backward"
    kept = (
        words_on_node(harm.saved_by).partition(":")[0] if harm.edge is not None else ""
    )  # the rest would be the answer
    return f"line {place.line}: {place.text} writes into the memory of {needed}" + (f" ({kept})" if kept else "")
