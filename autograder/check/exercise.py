"""The call in a check cell: `check("clear_after_use", like=given, d=result("n", 3), w2=leaf(3))`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from autograder.check.attempt_picture import RecordedTrial, picture_on_failure
from autograder.check.comparison import compare
from autograder.check.demonstrations import demonstration
from autograder.check.events import notify, show_passed
from autograder.check.expected import ROUNDS, Afterwards, Expected, Trials
from autograder.check.learner import LearnerNames, find
from autograder.check.message import Incorrect
from autograder.check.plan import Plan, plan_or_compare
from autograder.check.shown_message import is_learners_notebook
from autograder.check.subject.call_report import Array, Call
from autograder.check.subject.learner_code import normal_form
from autograder.check.subject.subjects import Subject
from autograder.locale.messages import Message
from autograder.locale.translations import translatable, translated
from autograder.tape.recording.schema import Recording
from autograder.tape.run.budget import Budget

PICTURE_SECONDS = 1.0  # seconds after which the run of a passed answer is no longer recorded


def check(
    exercise: str,
    *,
    like: Callable[..., Any],
    given: Callable[..., Any] | None = None,
    at_most: Callable[..., int] | None = None,
    without: tuple[str, ...] = (),
    asked: Callable[[], object] | None = None,
    decisive: Callable[..., bool] | None = None,
    afterwards: Afterwards = None,
    **inputs: Any,
) -> None:
    """Print one line if an answer is right, and raise the reason if it is not.

    The student's function named `exercise` must return what `like` returns, leave the same values in the memory of every
    tensor passed to it, and give the right gradients. Most often `like` is the original, faulty program: only its forward
    is run, so the fault does not matter.

        check("scaled_square", like=given, x=leaf("rows", 3), scale=constant(), power=2)

    calls the student's `scaled_square` and `given` with `x` of the shape (2, 3), (3, 3) or (4, 3), a `scale` without a dimension,
    and the number 2. Every call of `check` draws its own inputs, so one cell may check several shapes.

    Args:
        exercise: the exercise's id, which is also the name of the function or `nn.Module` class to check.
        like: a function or module class that computes the right values.
        given: the original program, if that is not `like`; its source is used to recognize an unchanged answer.
        at_most: takes the drawn arguments by name and returns the number of bytes that an answer may allocate, such as
            `lambda x, scale: x.nbytes`.
        without: names that the answer must not use, such as "optim".
        asked: the program whose version counters the question is about; a wrong answer is shown its picture with the counters hidden.
        decisive: takes the drawn arguments by name and returns whether they distinguish right from wrong answers; if not, new
            arguments are drawn.
        afterwards: takes the drawn arguments by name and returns, by name, the values that an answer must leave in the memory
            of these arguments; use it if `like` does not modify them.
        inputs: `leaf(...)`, `result(...)`, `frozen(...)`, `constant(...)`, `indices(...)` or `mask(...)` for tensors;
            numbers and strings are passed unchanged.

    Raises:
        NotAttempted: the answer is still the original program.
        Incorrect: the answer is wrong; the message gives the reason in four lines.
        Missing: the name `exercise` is not defined.
        InputError: a mistake of the author: `like` raises an error, or no draw of the inputs satisfies `decisive`.
    """
    shown = functools.cache(functools.partial(demonstration, asked)) if asked is not None else None
    trials = Trials(like, given or like, inputs, decisive, afterwards)
    plan_or_compare(CheckPlan(exercise, like, given or like, trials, at_most, without, shown))


@dataclass(frozen=True)
class CheckPlan(Plan):
    """The plan of one call of `check`; its arguments are described there."""

    name: str
    like: Callable[..., Any]
    given: Callable[..., Any]
    trials: Trials  # the calls and their results; the memory of the last call is also measured
    at_most: Callable[..., int] | None
    without: tuple[str, ...]
    # returns the recording of the program whose version counters the question is about
    asked: Callable[[], Recording] | None

    asks: ClassVar = "subject"

    @property
    def makes_extra_call(self) -> bool:  # type: ignore[override]
        """Whether the memory of a right answer is measured."""
        return self.at_most is not None

    @functools.cached_property
    def calls(self) -> tuple[Call, ...]:
        """All calls except the one that measures memory."""
        return tuple(part.call for expected in self.trials for part in expected.parts)

    @functools.cached_property
    def original_form(self) -> str | None:
        """The normal form of the original program."""
        return normal_form(self.given)

    @functools.cached_property
    def allowed(self) -> int | None:
        """The number of bytes that the last trial may allocate; None for no limit."""
        *_, last = self.trials
        return None if self.at_most is None else self.at_most(**_arrays(last))

    def _judge(self, subject: Subject, part: Expected, attempt: RecordedTrial) -> None:
        report = subject.call(part.call)
        compare(self.name, report, part, given=self.original_form, without=self.without, attempt=attempt)

    def _smaller(self, subject: Subject, wrong: Incorrect) -> tuple[Incorrect, RecordedTrial] | None:
        """Return the same verdict for small integers, in a student's notebook; None if these numbers hide the fault."""
        small = self.trials.small() if is_learners_notebook() else None
        for part in small.parts if small else ():
            attempt = RecordedTrial(subject, part, self.asked)
            try:
                self._judge(subject, part, attempt)
            except Incorrect as incorrect:
                return (incorrect, attempt) if incorrect.verdict == wrong.verdict else None
        return None

    def compare(self, names: LearnerNames) -> None:
        """Call the student's function in each trial, and compare the results."""
        subject = find(names.subject, self.name)
        try:
            _require_own_work(self.name, subject, self.like, self.given)
            for expected in self.trials:
                for part in expected.parts:
                    with picture_on_failure(
                        subject, part, self.asked, lambda wrong: self._smaller(subject, wrong)
                    ) as attempt:
                        self._judge(subject, part, attempt)
            if self.allowed is not None:
                with picture_on_failure(subject, expected) as attempt:
                    _require_few_bytes(self.name, subject, expected, self.allowed, attempt)
        except Incorrect:
            notify("failed", self.name, "")
            raise
        show_passed(self.name, _compared_parts(expected, budget=self.allowed is not None))
        if is_learners_notebook():
            with Budget(PICTURE_SECONDS).active():
                RecordedTrial(subject, expected).show_right()


def _arrays(expected: Expected) -> dict[str, Array]:
    return {name: argument.values for name, argument in expected.call.arguments.items()}


def _compared_parts(expected: Expected, budget: bool) -> str:
    """Return a list of the compared values and gradients, for the line of a passed check."""
    held = [translated("the values")] if expected.values.outputs else []
    held += [translated("what it leaves in {name}", name=name) for name in expected.written]
    if len(expected.gradients) == 1:
        held.append(translated("the gradient of {name}", name=next(iter(expected.gradients))))
    elif expected.gradients:
        held.append(translated("the gradients of {names}", names=translated(", ").join(expected.gradients)))
    held += [translated("the memory it takes")] if budget else []
    drawn = translated(", in {count} rounds with new numbers", count=ROUNDS) if expected.call.arguments else ""
    return translated(" ({parts})", parts=translated("; ").join(held) + drawn)


def _require_own_work(exercise: str, subject: Subject, like: Callable[..., Any], given: Callable[..., Any]) -> None:
    """Raise Incorrect if an answer calls the function that it is compared with, which is also in the notebook."""
    for name in {function.__name__ for function in (like, given) if subject.uses(function)}:
        raise Incorrect.of(
            translated("{exercise}: this is the check's own function", exercise=exercise),
            saw=translated("the answer uses {name}", name=name),
            expected=translated("your own answer"),
            look_at=translated(
                "the answer's cell; {name} is not defined when the answer is checked elsewhere", name=name
            ),
        )


def _require_few_bytes(
    exercise: str, subject: Subject, expected: Expected, allowed: int, attempt: RecordedTrial
) -> None:
    arguments = _arrays(expected)
    made = subject.call(msgspec.structs.replace(expected.call, cotangents={}, measure=True)).allocated
    if made is None or sum(tensor.nbytes for tensor in made) > allowed:
        largest = max(arguments, key=lambda name: arguments[name].nbytes)
        size = arguments[largest].nbytes
        large = {tensor.line: tensor.text for tensor in made or () if tensor.line and 2 * tensor.nbytes > size}
        large, taken = attempt.changed_first(large), sum(tensor.nbytes for tensor in made or ()) / size
        attempt.name_lines(large, Message("exercise.new_memory|takes new memory"))
        raise Incorrect.of(
            translated("{exercise}: right, but it copies more than it needs to", exercise=exercise),
            saw=_count(translatable("{tensors} the size of {name}"), taken, name=largest),
            expected=_count(translatable("at most {tensors} of that size"), allowed / size),
            look_at=translated("; ").join(
                translated("line {line}: {text}", line=line, text=text) for line, text in large.items()
            )
            or translated("the largest copy, and how much of it backward needs"),
        )


def _count(sentence: str, tensors: float, **names: str) -> str:
    """Return a sentence on an amount of memory, as a number of tensors of one size; a rest of a tenth or more is mentioned."""
    whole = int(tensors + 0.1)
    text = translated("1 new tensor") if whole == 1 else translated("{count} new tensors", count=whole)
    text = translated(sentence, tensors=text, **names)
    return translated("{tensors}, and smaller ones", tensors=text) if tensors - whole >= 0.1 else text
