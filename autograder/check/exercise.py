"""The one line of a check cell: `check("clear_after_use", like=given, d=result("n", 3), w2=leaf(3))`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from autograder.check.attempt_picture import Attempt, pictured
from autograder.check.events import failed, is_learners_notebook, passed
from autograder.check.expected import Expected, Trials
from autograder.check.judge import judge
from autograder.check.learner import find_subject
from autograder.check.memo import once
from autograder.check.message import Incorrect, message
from autograder.check.other_values import record_original
from autograder.check.subject.call_report import Array, Call
from autograder.check.subject.inputs import TensorInput
from autograder.check.subject.learner_code import normal_form
from autograder.check.subject.subjects import Subject
from autograder.locale.translations import in_english, translated
from autograder.tape.recording.schema import Recording
from autograder.tape.run.budget import Budget

PICTURE_SECONDS = 1.0  # after these no further run of an answer that has passed begins

ROUNDS = 3  # an answer that is right once by luck, or that remembers a call, is not right three times


def check(
    exercise: str,
    *,
    like: Callable[..., Any],
    given: Callable[..., Any] | None = None,
    at_most: Callable[..., int] | None = None,
    without: tuple[str, ...] = (),
    asked: Callable[[], object] | None = None,
    decisive: Callable[..., bool] | None = None,
    **inputs: Any,
) -> None:
    """Checks an answer: prints one line if it is right, and raises the reason if it is not.

    The learner's function named `exercise` must return what `like` returns, leave the same values in the memory of every
    tensor passed to it, and give the right gradients. Most often `like` is the original, faulty program: only its forward
    is run, so the fault does not matter.

    Args:
        exercise: the exercise's id, which is also the name of the function or `nn.Module` class to check.
        like: a function, or a module class, that computes the right values.
        given: the original program, if that is not `like`; its source is used to recognize an unchanged answer.
        at_most: takes the drawn arguments by name and returns how many bytes an answer may allocate.
        without: names that the answer must not use, such as "optim".
        asked: a program of whose counters the answer tells; a wrong one is shown its picture, with the counters hidden.
        decisive: takes the drawn arguments by name; while it is false, others are drawn, so that each round tells answers apart.
        inputs: `leaf(...)`, `result(...)`, `frozen(...)`, `constant(...)`, `indices(...)` or `mask(...)` for tensors;
            numbers and strings are passed as they are.

    Raises:
        NotAttempted: the answer is still the original program.
        Incorrect: why the answer is not right, in four lines.
        Missing: nothing of that name is defined.
    """
    subject = find_subject(exercise)
    trials = once(("trials", exercise), Trials)
    untouched = normal_form(given or like)
    options = {name: value for name, value in inputs.items() if not isinstance(value, TensorInput)}
    try:
        _require_own_work(exercise, subject, like, given)
        for number in range(ROUNDS):
            expected = trials.get(number, like, inputs, options, decisive)

            def original(number: int = number, call: Call = expected.call) -> Recording | None:
                return once(("original", exercise, number), lambda: record_original(given or like, call))

            for part in (expected, expected.through_memory):
                if part is not None:
                    with pictured(subject, part, asked, original) as attempt:
                        report = subject.call(part.call)
                        judge(exercise, report, part, given=untouched, without=without, attempt=attempt)
        if at_most is not None:
            with pictured(subject, expected) as attempt:
                _require_few_bytes(exercise, subject, expected, at_most, attempt)
    except Incorrect:
        failed(exercise)
        raise
    passed(exercise, _held(expected, budget=at_most is not None))
    if is_learners_notebook():
        with Budget(PICTURE_SECONDS).in_force():
            Attempt(subject, expected).show_right()


def _held(expected: Expected, budget: bool) -> str:
    """Returns what the check compared, for the line that says that it passed."""
    held = [translated("the values")] if expected.values.outputs else []
    held += [translated("what it leaves in {name}", name=name) for name in expected.written]
    if len(expected.gradients) == 1:
        held.append(translated("the gradient of {name}", name=next(iter(expected.gradients))))
    elif expected.gradients:
        held.append(translated("the gradients of {names}", names=translated(", ").join(expected.gradients)))
    held += [translated("the memory it takes")] if budget else []
    drawn = translated(", in {count} rounds with new numbers", count=ROUNDS) if expected.call.arguments else ""
    return translated(" ({parts})", parts=translated("; ").join(held) + drawn)


def _require_own_work(
    exercise: str, subject: Subject, like: Callable[..., Any], given: Callable[..., Any] | None
) -> None:
    """Raises Incorrect where a learner's answer is a call of what the check compares it with, which stands in the notebook, too."""
    for name in {one.__name__ for one in (like, given) if one is not None and subject.uses(one)}:
        raise Incorrect(
            message(
                translated("{exercise}: this is the check's own function", exercise=exercise),
                saw=translated("the answer uses {name}", name=name),
                expected=translated("an answer of your own"),
                look_at=translated(
                    "the answer's cell; {name} will not be there when somebody else checks it", name=name
                ),
            )
        )


def _require_few_bytes(
    exercise: str, subject: Subject, expected: Expected, at_most: Callable[..., int], attempt: Attempt
) -> None:
    arguments: dict[str, Array] = {name: argument.values for name, argument in expected.call.arguments.items()}
    allowed = at_most(**arguments)
    made = subject.call(msgspec.structs.replace(expected.call, cotangents={}, measure=True)).allocated
    if made is None or sum(one.nbytes for one in made) > allowed:
        largest = max(arguments, key=lambda name: arguments[name].nbytes)
        size = arguments[largest].nbytes
        large = {one.line: one.text for one in made or () if one.line and 2 * one.nbytes > size}
        attempt.name_lines(large, in_english("takes new memory"))
        raise Incorrect(
            message(
                translated("{exercise}: right, but it copies more than it needs to", exercise=exercise),
                saw=translated(
                    "{tensors} the size of {name}",
                    tensors=_count(sum(one.nbytes for one in made or ()) / size),
                    name=largest,
                ),
                expected=translated("at most {tensors} of that size", tensors=_count(allowed / size)),
                look_at=translated("; ").join(
                    translated("line {line}: {text}", line=line, text=text) for line, text in large.items()
                )
                or translated("the largest copy, and how much of it backward needs"),
            )
        )


def _count(tensors: float) -> str:
    """Returns how much memory was taken, in tensors of one size; what is left of a tenth and more is said, too."""
    whole = int(tensors + 0.1)
    told = translated("1 new tensor") if whole == 1 else translated("{count} new tensors", count=whole)
    return translated("{tensors} and smaller ones", tensors=told) if tensors - whole >= 0.1 else told
