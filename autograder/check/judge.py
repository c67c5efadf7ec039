"""From a report to a verdict: what a check compares, in the order in which a learner can act on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import torch

from autograder.check.attempt_picture import Attempt
from autograder.check.expected import Expected
from autograder.check.explanations import find_reader, line_of_memory, line_of_parameter
from autograder.check.forbidden_names import require_without
from autograder.check.message import Incorrect, message, not_attempted
from autograder.check.raised_problem import raise_problem
from autograder.check.subject.call_report import Array, Report, array
from autograder.check.values import ABSOLUTE, close, format_values, same
from autograder.locale.translations import translated


def judge(
    exercise: str,
    report: Report,
    expected: Expected,
    *,
    given: str | None,
    without: tuple[str, ...] = (),
    attempt: Attempt,
) -> None:
    """Raises the first reason why the report is not what was expected.

    Args:
        exercise: its id, with which every message begins.
        report: what the learner's function did.
        expected: the same call's values and gradients, found without the learner's function.
        given: the normal form of the original program.
        without: names that the answer must not use.
        attempt: knows the lines that the call ran.

    Raises:
        NotAttempted: the answer is still the original program.
        Incorrect: the answer is wrong; the message says why.
    """
    _require_attempt(exercise, report, given)
    require_without(exercise, report.words, without, translated("the task above"))
    if report.problem is not None:
        raise_problem(exercise, report.problem, attempt.blame)
    _compare_parameters(exercise, report, expected, attempt)
    _compare_values(exercise, report, expected, attempt)
    _compare_memory(exercise, report, expected, attempt)
    _compare_gradients(exercise, report, expected, attempt)


def _require_attempt(exercise: str, report: Report, given: str | None) -> None:
    stub = report.problem is not None and report.problem.type == "NotImplementedError"
    if stub or (given is not None and report.code == given):
        raise not_attempted(exercise, translated("your own version of it"))


def _compare_parameters(exercise: str, report: Report, expected: Expected, attempt: Attempt) -> None:
    wanted, got = expected.call.parameters.keys(), set(report.parameters)
    if wanted != got:
        more, less = sorted(got - wanted), sorted(wanted - got)
        raise Incorrect(
            message(
                translated("{exercise}: the module has other parameters", exercise=exercise),
                saw=", ".join(sorted(got)) or translated("no parameter"),
                expected=", ".join(sorted(wanted)),
                # Where one is missing, the one too many is most often the same under another name.
                look_at=_where_parameters_differ(more, less, attempt),
            )
        )


def _where_parameters_differ(more: list[str], less: list[str], attempt: Attempt) -> str:
    line = attempt.name_line(line_of_parameter, more[0]) if more else ""
    if not less:
        return line or translated(
            "{name}: an optimizer would train it, too; a tensor that is not trained is no parameter", name=more[0]
        )
    told = translated("{name}: a parameter that saved weights and the caller know by this name", name=less[0])
    return translated("{line}; {told}", line=line, told=told) if line else told


def _compare_values(exercise: str, report: Report, expected: Expected, attempt: Attempt) -> None:
    values = expected.values
    _compare_structure(exercise, report, [*values.outputs, *values.others])
    for name, right in values.outputs.items():
        got = report.outputs.get(name)
        if got is None:
            _raise_no_value(exercise, name, report.others.get(name, "nothing"), right, attempt.blame)
        if not same(got, right):
            # Where nothing is drawn, the numbers asked for are the answer, and the message must not give them away.
            drawn = bool(expected.call.arguments)
            raise Incorrect(
                message(
                    translated("{exercise}: the function computes something else", exercise=exercise),
                    saw=f"{name} = {format_values(got, right)}",
                    expected=f"{name} = {format_values(right, got)}"
                    if drawn
                    else translated("another {name}", name=name),
                    look_at=_where_values_differ(name, got, right, expected, attempt),
                )
            )


def _compare_structure(exercise: str, report: Report, wanted: list[str]) -> None:
    missing = sorted(set(wanted) - (report.outputs.keys() | report.others.keys()))
    if not missing:
        return
    nothing = report.others == {"value": "NoneType"}
    raise Incorrect(
        message(
            translated("{exercise}: the function returns a different structure", exercise=exercise),
            saw=", ".join([*report.outputs, *(f"{name} ({kind})" for name, kind in report.others.items())]),
            expected=translated("value: one result, without a list, tuple or dict around it")
            if wanted == ["value"]
            else translated("{names} (missing: {name})", names=translated(", ").join(wanted), name=missing[0]),
            look_at=_where_none_comes_from() if nothing else translated("the return line"),
        )
    )


def _where_none_comes_from() -> str:
    return translated(
        "the return line: a function without one returns None, and so does .grad of a tensor that is not a leaf or "
        "that no backward has reached"
    )


def _where_values_differ(name: str, got: Array, right: Array, expected: Expected, attempt: Attempt) -> str:
    if not expected.call.arguments:
        return translated("the program above, line by line: which lines change this one?")
    if (got.dtype, got.shape) != (right.dtype, right.shape):
        told, line = translated("its dtype and shape: they have to be the same, too"), attempt.name_value(name)
        return translated("{line}; {told}", line=line, told=told) if line else told
    if not expected.gradients and (told := attempt.blame()):
        return told
    line = attempt.name_value(name)
    if expected.gradients:
        return line or translated("what the task asks for: a repair keeps the values")
    told = translated("this function runs backward itself, so a wrong gradient is a wrong value")
    return translated("{line}; {told}", line=line, told=told) if line else told


def _raise_no_value(exercise: str, name: str, kind: str, right: Array, blame: Callable[..., str]) -> NoReturn:
    if kind == "ellipsis":
        raise Incorrect(
            message(
                translated("{exercise}: {name} is still open", exercise=exercise, name=name),
                saw="...",
                expected=translated("a value of yours"),
                look_at=translated("the return line"),
            )
        )
    nothing = kind == "NoneType"
    raise Incorrect(
        message(
            f"{exercise}: {name} is None"
            if nothing
            else translated("{exercise}: {name} is no tensor and no number", exercise=exercise, name=name),
            saw="None" if nothing else translated("a {type}", type=kind),
            expected=translated("{dtype} of shape {shape}", dtype=right.dtype, shape=right.shape)
            if right.shape
            else translated("a number, which stands without quotes"),
            look_at=(blame() or _where_none_comes_from()) if nothing else translated("the return line"),
        )
    )


def _compare_memory(exercise: str, report: Report, expected: Expected, attempt: Attempt) -> None:
    for name, right in expected.values.after.items():
        got, before = report.after.get(name), expected.call.arguments[name].values
        if got is not None and same(got, right):
            continue
        dropped = not same(before, right) and got is not None and same(got, before)
        verdict = (
            translated("the write into {name} is gone", name=name)
            if dropped
            else translated("{name} is left with other values", name=name)
        )
        raise Incorrect(
            message(
                f"{exercise}: {verdict}",
                saw=translated("{name} holds {values} afterwards", name=name, values=format_values(got, right))
                if got
                else translated("{name} is gone", name=name),
                expected=translated(
                    "{name} holds {values}, in the memory that the caller passed in",
                    name=name,
                    values=format_values(right, got),
                ),
                look_at=attempt.name_line(line_of_memory, name)
                or translated("which line writes into it, and whether the name still refers to that memory by then"),
            )
        )


def _compare_gradients(exercise: str, report: Report, expected: Expected, attempt: Attempt) -> None:
    """Raises Incorrect at the first leaf whose gradient is missing, wrong, or not wanted."""
    for name, right in expected.gradients.items():
        got = report.gradients.get(name)
        if got is None and right.abs().max() <= ABSOLUTE:
            continue  # a leaf that the value does not depend on may have no gradient, or zeros
        if got is None:
            raise Incorrect(
                message(
                    translated("{exercise}: no gradient arrived at {name}", exercise=exercise, name=name),
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
        if got is not None:  # zeros, too: an optimizer with momentum or weight decay moves what has a gradient
            raise Incorrect(
                message(
                    translated(
                        "{exercise}: a gradient arrived at {name}, which is not to be trained",
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
    if memory:  # the same call was right before backward started in the caller's memory, too
        verdict = translated("{name} holds new values with the wrong history", name=memory)
        wanted = translated("a gradient that takes the write into {name} into account", name=memory)
        where = attempt.name_line(line_of_memory, next(iter(expected.call.memory_cotangents))) or translated(
            "how {name} is written: under no_grad or through .data it keeps its old history, and a detached tensor in "
            "the write has none",
            name=memory,
        )
    else:
        verdict = translated("the gradient of {name} is wrong, and nothing warned you", name=name)
        values = format_values(array(right), got)
        wanted = translated("{values}, the slope found by finite differences", values=values)
        where = attempt.blame(name) or translated(
            "each path from the result back to {name}: one is cut, or gives another slope", name=name
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
