"""The comparison of a report with the expected values and gradients, in the order in which a student can act on the reasons."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import torch

from autograder.check.attempt_picture import RecordedTrial
from autograder.check.expected import Expected
from autograder.check.message import Incorrect, not_attempted
from autograder.check.named_lines import first_use_of_leaf, line_of_attribute, line_of_memory, line_of_parameter
from autograder.check.raised_problem import raise_problem
from autograder.check.subject.call_report import Array, Report, array
from autograder.locale.translations import translatable, translated

NONE_RETURNED = translatable(
    "the return line: a function without one returns None, and so does .grad of a tensor that is not a leaf or "
    "that no backward has reached"
)
ONE_RESULT = translatable("value: one result, without a list, tuple or dict around it")

# Central differences in float64 have a relative error of about 1e-8; a wrong formula differs by much more.
RELATIVE, ABSOLUTE = 1e-5, 1e-6


def arrays_match(got: Array, right: Array) -> bool:
    """Return whether dtype and shape are the same and the values agree within the accuracy above; nan never agrees."""
    if (got.dtype, got.shape) != (right.dtype, right.shape):
        return False
    return torch.allclose(got.tensor(), right.tensor(), rtol=RELATIVE, atol=ABSOLUTE)


def format_values(values: Array, other: Array | None = None) -> str:
    """Return a short text: four numbers, starting at the first one that differs from `other`, then dtype and shape.

    The numbers have four digits, or as many more as the first one needs to differ from that of `other`.
    """
    if values.dtype == "bool" and not values.shape:
        return str(bool(values.tensor()))
    flat = values.tensor().reshape(-1)
    beside = other.tensor().reshape(-1) if other and other.shape == values.shape else flat
    different = (~torch.isclose(flat.double(), beside.double(), rtol=RELATIVE, atol=ABSOLUTE)).nonzero()
    start = int(different[0]) if len(different) else 0
    first = [each[start : start + 1].tolist() for each in (flat, beside)]
    digits = next(
        (most for most in (4, 6, 8) if len({f"{each:.{most}g}" for rounded in first for each in rounded}) > 1), 4
    )
    shown = ", ".join(f"{number:.{digits}g}" for number in flat[start : start + 4].tolist())
    after = translated(", … {count} in all", count=flat.numel()) if flat.numel() > 4 else ""
    return f"[{'… ' if start else ''}{shown}{after}] ({values.dtype}, shape {tuple(values.shape)})"


INDIRECT = (
    *("getattr", "__getattribute__", "attrgetter", "methodcaller", "__dict__", "vars", "globals"),
    *("exec", "eval", "__import__", "import_module"),
)
"""Ways to access a name without writing it; an answer must not use these either if a name is forbidden."""


def require_without(exercise: str, used: tuple[str, ...], forbidden: tuple[str, ...], look_at: str) -> None:
    """Raise Incorrect if an answer uses a forbidden name, or a way to access one indirectly; if none is forbidden, return."""
    refused = (*forbidden, *INDIRECT) if forbidden else ()
    if refusal := next((name for name in refused if name in used), ""):
        raise Incorrect.of(
            translated("{exercise}: this name is not allowed here", exercise=exercise),
            saw=translated("{word} in your code", word=refusal),
            expected=translated("an answer without {words}", words=translated(", ").join(forbidden)),
            look_at=look_at,
        )


def compare_gradients(exercise: str, report: Report, expected: Expected, attempt: RecordedTrial) -> None:
    """Raise Incorrect at the first leaf whose gradient is missing, wrong, or must not exist."""
    for name, right in expected.gradients.items():
        got = report.gradients.get(name)
        if got is None and right.abs().max() <= ABSOLUTE:
            continue  # if the value does not depend on a leaf, its gradient may be None or zeros
        if got is None:
            raise Incorrect.of(
                translated("{exercise}: {name} received no gradient", exercise=exercise, name=name),
                saw=translated("{name}.grad is None", name=name),
                expected=translated("the gradient of the value with respect to {name}", name=name),
                look_at=attempt.describe_cause(name, is_missing=True)
                or translated("where the path from the result back to {name} is cut", name=name),
                judges_gradients=True,
            )
        if not arrays_match(got, array(right)):
            _raise_wrong_gradient(exercise, name, got, right, expected, attempt)
    for name, argument in expected.call.arguments.items():
        got = report.gradients.get(name) if argument.kind == "frozen" else None
        if got is not None:  # an all-zero gradient counts: momentum or weight decay would still update it
            raise Incorrect.of(
                translated(
                    "{exercise}: {name} received a gradient, but must not be trained", exercise=exercise, name=name
                ),
                saw=f"{name}.grad = {format_values(got)}",
                expected=translated("{name}.grad is None", name=name),
                look_at=attempt.name_line(first_use_of_leaf, name)
                or translated("which paths lead from the result back to {name}, and where to cut them", name=name),
                judges_gradients=True,
            )


def _raise_wrong_gradient(
    exercise: str, name: str, got: Array, right: torch.Tensor, expected: Expected, attempt: RecordedTrial
) -> NoReturn:
    memory = ", ".join(expected.call.memory_cotangents)
    if memory:  # the same call was right as long as backward did not start from the modified arguments
        verdict = translated("{name} holds new values with the wrong history", name=memory)
        wanted = translated("a gradient that takes the write into {name} into account", name=memory)
        where = attempt.name_line(line_of_memory, next(iter(expected.call.memory_cotangents))) or translated(
            "how {name} is written: under no_grad or through .data it keeps its old history, and a detached tensor in the write has none",
            name=memory,
        )
    else:
        verdict = translated("the gradient of {name} is wrong (and no error was raised)", name=name)
        values = format_values(array(right), got)
        wanted = translated("{values}, computed with finite differences", values=values)
        where = attempt.describe_cause(name) or translated(
            "the operations between {name} and the result: one is detached or has the wrong derivative", name=name
        )
    raise Incorrect.of(
        f"{exercise}: {verdict}",
        saw=f"{name}.grad = {format_values(got, array(right))}",
        expected=wanted,
        look_at=where,
        judges_gradients=True,
    )


def compare(
    exercise: str,
    report: Report,
    expected: Expected,
    *,
    given: str | None,
    without: tuple[str, ...] = (),
    attempt: RecordedTrial,
) -> None:
    """Raise the first reason why a report differs from the expected results.

    `given` is the normal form of the original program, and `without` are names that the answer must not use; `attempt`
    records the call and finds the line to name.

    Raises:
        NotAttempted: the answer is still the original program.
        Incorrect: the answer is wrong; the message gives the reason.
    """
    stub = report.problem is not None and report.problem.type == "NotImplementedError"
    if stub or (given is not None and report.code == given):
        raise not_attempted(exercise, translated("your own version of it"))
    require_without(exercise, report.words, without, translated("the task above"))
    if report.problem is not None:
        raise_problem(exercise, report.problem, attempt)
    _compare_parameters(exercise, report, expected, attempt)
    _compare_values(exercise, report, expected, attempt)
    _compare_memory(exercise, report, expected, attempt)
    compare_gradients(exercise, report, expected, attempt)


def _compare_parameters(exercise: str, report: Report, expected: Expected, attempt: RecordedTrial) -> None:
    wanted, got = expected.call.parameters.keys(), set(report.parameters)
    if wanted != got:
        more, less = sorted(got - wanted), sorted(wanted - got)
        raise Incorrect.of(
            translated("{exercise}: the module has other parameters", exercise=exercise),
            saw=", ".join(sorted(got)) or translated("no parameter"),
            expected=", ".join(sorted(wanted)),
            # If a parameter is missing, the extra one is most often the same parameter under another name.
            look_at=_where_parameters_differ(more, less, attempt),
        )


def _where_parameters_differ(more: list[str], less: list[str], attempt: RecordedTrial) -> str:
    # A missing `gate.bias` belongs to a module of another name or kind; only a plain name has a line of its own.
    plain = less and "." not in less[0]
    line = attempt.name_line(line_of_parameter, more[0]) if more else ""
    line = line or (attempt.name_line(line_of_attribute, less[0]) if plain else "")
    if not less:
        return line or translated(
            "{name}: an optimizer would train it as well; a tensor that is not trained must not be an nn.Parameter",
            name=more[0],
        )
    text = translated("{name}: a parameter that saved weights and the caller know by this name", name=less[0])
    return translated("{line}; {told}", line=line, told=text) if line else text


def _compare_values(exercise: str, report: Report, expected: Expected, attempt: RecordedTrial) -> None:
    values = expected.values
    _compare_structure(exercise, report, [*values.outputs, *values.others], attempt)
    for name, right in values.outputs.items():
        got = report.outputs.get(name)
        if got is None:
            _raise_no_value(exercise, name, report.others.get(name, "nothing"), right, attempt.describe_cause)
        if not arrays_match(got, right):
            # Without drawn inputs, the expected numbers are the answer, so the message must not show them.
            drawn = bool(expected.call.arguments)
            raise Incorrect.of(
                translated("{exercise}: wrong return value", exercise=exercise),
                saw=f"{name} = {format_values(got, right)}",
                expected=f"{name} = {format_values(right, got)}" if drawn else translated("another {name}", name=name),
                look_at=_where_values_differ(name, report, right, expected, attempt),
            )


def _compare_structure(exercise: str, report: Report, wanted: list[str], attempt: RecordedTrial) -> None:
    missing = sorted(set(wanted) - (report.outputs.keys() | report.others.keys()))
    if not missing:
        return
    nothing, is_single = report.others == {"value": "NoneType"}, [*report.outputs] == ["value"]
    saw = ", ".join([*report.outputs, *(f"{name} ({kind})" for name, kind in report.others.items())])
    expected = translated(", ").join(wanted)
    if wanted == ["value"]:
        expected = translated(ONE_RESULT)
    elif not is_single:  # a single result may be any of the wanted ones
        expected = translated("{names} (missing: {name})", names=expected, name=missing[0])
    raise Incorrect.of(
        translated("{exercise}: the function returns a different structure", exercise=exercise),
        saw=translated(ONE_RESULT) if is_single else saw,
        expected=expected,
        look_at=translated(NONE_RETURNED) if nothing else attempt.name_changed() or translated("the return line"),
    )


def _where_values_differ(name: str, report: Report, right: Array, expected: Expected, attempt: RecordedTrial) -> str:
    got = report.outputs[name]
    if not expected.call.arguments:
        text, line = translated("the program above, line by line: which lines change this one?"), attempt.name_changed()
    elif (got.dtype, got.shape) != (right.dtype, right.shape):
        text, line = translated("its dtype and shape: they also have to be the same"), attempt.name_value(name)
    elif not expected.gradients and (cause := attempt.describe_cause()):
        return cause
    else:
        text, line = translated("the task: a fix must keep the values"), attempt.name_value(name)
        if expected.gradients or not {"backward", "grad"} & set(report.words):
            return line or text
        text = translated("this function runs backward itself, so a wrong gradient is a wrong value")
    return translated("{line}; {told}", line=line, told=text) if line else text


def _raise_no_value(exercise: str, name: str, kind: str, right: Array, describe_cause: Callable[..., str]) -> NoReturn:
    if kind == "ellipsis":
        raise Incorrect.of(
            translated("{exercise}: {name} is still open", exercise=exercise, name=name),
            saw="...",
            expected=translated("your own value"),
            look_at=translated("the return line"),
        )
    nothing = kind == "NoneType"
    raise Incorrect.of(
        f"{exercise}: {name} is None"
        if nothing
        else translated("{exercise}: {name} is neither a tensor nor a number", exercise=exercise, name=name),
        saw="None" if nothing else translated("a {type}", type=kind),
        expected=translated("{dtype} of shape {shape}", dtype=right.dtype, shape=right.shape)
        if right.shape
        else translated("a number, without quotes"),
        look_at=(describe_cause() or translated(NONE_RETURNED)) if nothing else translated("the return line"),
    )


def _compare_memory(exercise: str, report: Report, expected: Expected, attempt: RecordedTrial) -> None:
    for name, right in expected.values.after.items():
        got, before = report.after.get(name), expected.call.arguments[name].values
        if got is not None and arrays_match(got, right):
            continue
        wanted = format_values(right, got)
        dropped = not arrays_match(before, right) and got is not None and arrays_match(got, before)
        verdict = (
            translated("{name} is no longer modified in place", name=name)
            if dropped
            else translated("{name} has the wrong values afterwards", name=name)
        )
        raise Incorrect.of(
            f"{exercise}: {verdict}",
            saw=translated("{name} holds {values} afterwards", name=name, values=format_values(got, right))
            if got
            else translated("{name} is gone", name=name),
            expected=translated(
                "{name} contains {values}, in the memory that the caller passed in", name=name, values=wanted
            ),
            look_at=attempt.name_memory(name)
            or translated("which line writes into it, and whether the name still refers to that memory by then"),
        )
