"""From a report to a verdict: what a check compares, in the order in which a learner can act on it."""

from __future__ import annotations

from typing import NoReturn

import torch

from autograder.check.expected import Expected
from autograder.check.message import Incorrect, NotAttempted, message
from autograder.check.subject.call_report import Array, CallProblem, Report, array

# Central differences in float64 are good to about 1e-8 of the value; a wrong formula is off by far more.
RELATIVE, ABSOLUTE = 1e-5, 1e-6


def judge(exercise: str, report: Report, expected: Expected, *, given: str | None) -> None:
    """Raises the first reason why the report is not what was expected.

    Args:
        exercise: its id, with which every message begins.
        report: what the learner's function did.
        expected: the same call's values and gradients, found without the learner's function.
        given: the normal form of the original program.

    Raises:
        NotAttempted: the answer is still the original program.
        Incorrect: the answer is wrong; the message says why.
    """
    _require_attempt(exercise, report, given)
    if report.problem is not None:
        _raise_problem(exercise, report.problem)
    _compare_values(exercise, report, expected.values)
    _compare_memory(exercise, report, expected)
    _compare_gradients(exercise, report, expected)


def _require_attempt(exercise: str, report: Report, given: str | None) -> None:
    stub = report.problem is not None and report.problem.type == "NotImplementedError"
    if stub or (given is not None and report.code == given):
        raise NotAttempted(
            message(
                f"{exercise}: not attempted yet",
                saw="the original program",
                expected="your own version of it",
                look_at=f'the task above; hint("{exercise}") gives a first hint',
            )
        )


def _raise_problem(exercise: str, problem: CallProblem) -> NoReturn:
    where = f"line {problem.line}: {problem.text.strip()}" if problem.line else "the function that you defined"
    text = problem.message.partition(" Hint: ")[0]
    if "modified by an inplace operation" in problem.message:
        verdict, expected = "backward refuses a saved tensor", "every saved tensor unchanged since it was saved"
        where = "the write that comes after the operation that saved it"
    elif "leaf Variable" in problem.message:
        verdict, expected = "a leaf is written in place", "a leaf that keeps its value while autograd records"
    elif problem.type == "KeyboardInterrupt":
        verdict, expected, text = (
            "your own code did not finish",
            "a function that returns",
            "stopped from outside",
        )
    elif problem.phase == "backward":
        verdict, expected = "backward raises", "a backward that runs"
        where = "how the returned values depend on the inputs"
    else:
        verdict, expected = "your own code raises an error", "a function that runs on these inputs"
    raise Incorrect(message(f"{exercise}: {verdict}", saw=f"{problem.type}: {text}", expected=expected, look_at=where))


def _compare_values(exercise: str, report: Report, values: Report) -> None:
    if missing := sorted(
        (values.outputs.keys() | values.others.keys()) - (report.outputs.keys() | report.others.keys())
    ):
        raise Incorrect(
            message(
                f"{exercise}: the function returns a different structure",
                saw=", ".join([*report.outputs, *(f"{name} ({kind})" for name, kind in report.others.items())]),
                expected=", ".join([*values.outputs, *values.others]) + f" (missing: {missing[0]})",
                look_at="the return line",
            )
        )
    for name, right in values.outputs.items():
        got = report.outputs.get(name)
        if got is None or not _same(got, right):
            raise Incorrect(
                message(
                    f"{exercise}: the function computes something else",
                    saw=f"{name} = {_format_values(got, right)}" if got else f"{name} is a {report.others.get(name)}",
                    expected=f"{name} = {_format_values(right, got)}",
                    look_at="what the task asks for: a repair keeps the values",
                )
            )


def _compare_memory(exercise: str, report: Report, expected: Expected) -> None:
    for name, right in expected.values.after.items():
        got, before = report.after.get(name), expected.call.arguments[name].values
        if got is not None and _same(got, right):
            continue
        dropped = not _same(before, right) and got is not None and _same(got, before)
        verdict = f"the write into {name} is gone" if dropped else f"{name} is left with other values"
        raise Incorrect(
            message(
                f"{exercise}: {verdict}",
                saw=f"{name} holds {_format_values(got, right)} afterwards" if got else f"{name} is gone",
                expected=f"{name} holds {_format_values(right, got)}, in the memory that the caller passed in",
                look_at="which line writes into it, and whether the name still refers to that memory by then",
            )
        )


def _compare_gradients(exercise: str, report: Report, expected: Expected) -> None:
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
        if not _close(got, right):
            raise Incorrect(
                message(
                    f"{exercise}: the gradient of {name} is wrong, and nothing warned you",
                    saw=_format_values(got, array(right)),
                    expected="the slope of the value that your function returns, found by finite differences",
                    look_at="a saved tensor whose bytes changed while its version did not, or a path that was cut",
                )
            )


def _same(got: Array, right: Array) -> bool:
    return (got.dtype, got.shape) == (right.dtype, right.shape) and _close(got, right.tensor())


def _close(got: Array, right: torch.Tensor) -> bool:
    values = got.tensor()
    return (
        values.dtype == right.dtype
        and values.shape == right.shape
        and torch.allclose(values, right, rtol=RELATIVE, atol=ABSOLUTE)
    )


def _format_values(values: Array, beside: Array | None = None) -> str:
    """Returns a short text: four numbers, starting at the first that differs from `beside`, then dtype and shape."""
    flat = values.tensor().reshape(-1)
    start = _first_difference(flat, beside.tensor().reshape(-1)) if beside and beside.shape == values.shape else 0
    shown = ", ".join(f"{number:.4g}" for number in flat[start : start + 4].tolist())
    before, after = "… " if start else "", f", … {flat.numel()} in all" if flat.numel() > 4 else ""
    return f"[{before}{shown}{after}] ({values.dtype}, shape {tuple(values.shape)})"


def _first_difference(got: torch.Tensor, right: torch.Tensor) -> int:
    different = (~torch.isclose(got.double(), right.double(), rtol=RELATIVE, atol=ABSOLUTE)).nonzero()
    return int(different[0]) if len(different) else 0
