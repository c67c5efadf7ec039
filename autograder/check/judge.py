"""From a report to a verdict: what a check compares, in the order in which a learner can act on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from autograder.check.expected import Expected
from autograder.check.gradients import compare_gradients, describe
from autograder.check.message import Incorrect, NotAttempted, Unfinished, message
from autograder.check.subject.call_report import Array, CallProblem, Report
from autograder.check.values import format_values, same
from autograder.tape.recording.verdict_types import Harm


def judge(
    exercise: str,
    report: Report,
    expected: Expected,
    *,
    given: str | None,
    without: tuple[str, ...] = (),
    harm: Callable[[], Harm | None] = lambda: None,
) -> None:
    """Raises the first reason why the report is not what was expected.

    Args:
        exercise: its id, with which every message begins.
        report: what the learner's function did.
        expected: the same call's values and gradients, found without the learner's function.
        given: the normal form of the original program.
        without: names that the answer must not use.
        harm: finds the write that harmed a saved tensor; called only where there may be one.

    Raises:
        NotAttempted: the answer is still the original program.
        Incorrect: the answer is wrong; the message says why.
    """
    _require_attempt(exercise, report, given)
    _require_words(exercise, report, without)
    if report.problem is not None:
        _raise_problem(exercise, report.problem, harm)
    _compare_parameters(exercise, report, expected)
    _compare_values(exercise, report, expected)
    _compare_memory(exercise, report, expected)
    compare_gradients(exercise, report, expected, harm)


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


def _require_words(exercise: str, report: Report, without: tuple[str, ...]) -> None:
    if used := [word for word in without if word in report.words]:
        raise Incorrect(
            message(
                f"{exercise}: this name is not allowed here",
                saw=f"{used[0]} in your code",
                expected=f"an answer without {', '.join(without)}",
                look_at="the task above",
            )
        )


def _raise_problem(exercise: str, problem: CallProblem, harm: Callable[[], Harm | None]) -> NoReturn:
    where = f"line {problem.line}: {problem.text.strip()}" if problem.line else "the function that you defined"
    text = problem.message.partition(" Hint: ")[0]
    if "modified by an inplace operation" in problem.message:
        verdict, expected = "backward refuses a saved tensor", "every saved tensor unchanged since it was saved"
        where = describe(harm()) or "the write that comes after the operation that saved it"
    elif "leaf Variable" in problem.message:
        verdict, expected = "a leaf is written in place", "a leaf that keeps its value while autograd records"
    elif problem.type == "KeyboardInterrupt":
        told = message(
            f"{exercise}: your own code did not finish",
            saw="KeyboardInterrupt: stopped from outside",
            expected="a function that returns",
            look_at=where,
        )
        raise Unfinished(told)
    elif problem.phase == "backward":
        verdict, expected = "backward raises", "a backward that runs"
        where = "how the returned values depend on the inputs"
    else:
        verdict, expected = "your own code raises an error", "a function that runs on these inputs"
    raise Incorrect(message(f"{exercise}: {verdict}", saw=f"{problem.type}: {text}", expected=expected, look_at=where))


def _compare_parameters(exercise: str, report: Report, expected: Expected) -> None:
    wanted, got = expected.call.parameters.keys(), set(report.parameters)
    if wanted != got:
        more, less = sorted(got - wanted), sorted(wanted - got)
        raise Incorrect(
            message(
                f"{exercise}: the module has other parameters",
                saw=", ".join(sorted(got)) or "no parameter",
                expected=", ".join(sorted(wanted)),
                look_at=f"{more[0]}: an optimizer would train it, too; a tensor that is not trained is no parameter"
                if more
                else f"{less[0]}: a parameter that saved weights and the caller know by this name",
            )
        )


def _compare_values(exercise: str, report: Report, expected: Expected) -> None:
    values = expected.values
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
        if got is None:
            _raise_no_value(exercise, name, report.others.get(name, "nothing"), right)
        if not same(got, right):
            # Where nothing is drawn, the numbers asked for are the answer, and the message must not give them away.
            drawn = bool(expected.call.arguments)
            raise Incorrect(
                message(
                    f"{exercise}: the function computes something else",
                    saw=f"{name} = {format_values(got, right)}",
                    expected=f"{name} = {format_values(right, got)}" if drawn else f"another {name}",
                    look_at="what the task asks for: a repair keeps the values"
                    if drawn
                    else "the program above, line by line: which lines change this one?",
                )
            )


def _raise_no_value(exercise: str, name: str, kind: str, right: Array) -> NoReturn:
    if kind == "ellipsis":
        raise Incorrect(
            message(
                f"{exercise}: {name} is still open", saw="...", expected="a value of yours", look_at="the return line"
            )
        )
    nothing = kind == "NoneType"
    raise Incorrect(
        message(
            f"{exercise}: {name} is None" if nothing else f"{exercise}: {name} is no tensor and no number",
            saw="None" if nothing else f"a {kind}",
            expected=f"{right.dtype} of shape {right.shape}",
            look_at="the return line: a function without one returns None, and so does .grad of a tensor that is not "
            "a leaf or that no backward has reached"
            if nothing
            else "the return line",
        )
    )


def _compare_memory(exercise: str, report: Report, expected: Expected) -> None:
    for name, right in expected.values.after.items():
        got, before = report.after.get(name), expected.call.arguments[name].values
        if got is not None and same(got, right):
            continue
        dropped = not same(before, right) and got is not None and same(got, before)
        verdict = f"the write into {name} is gone" if dropped else f"{name} is left with other values"
        raise Incorrect(
            message(
                f"{exercise}: {verdict}",
                saw=f"{name} holds {format_values(got, right)} afterwards" if got else f"{name} is gone",
                expected=f"{name} holds {format_values(right, got)}, in the memory that the caller passed in",
                look_at="which line writes into it, and whether the name still refers to that memory by then",
            )
        )
