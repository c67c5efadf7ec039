"""Exercises that ask for a program with a given outcome: "make it silently wrong without `.data`"."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NoReturn

import msgspec

from autograder.check.answer_lines import AnswerLines
from autograder.check.attempt_picture import describe as describe_harm
from autograder.check.comparison import require_without
from autograder.check.events import notify, show_passed
from autograder.check.learner import LearnerNames, find
from autograder.check.message import Incorrect, not_attempted
from autograder.check.named_lines import describe as describe_line
from autograder.check.plan import Plan, plan_or_compare
from autograder.check.raised_problem import line_that_ran, raise_unfinished
from autograder.check.shown_message import show_first
from autograder.check.subject.call_report import ProgramText
from autograder.check.subject.learner_code import normal_form
from autograder.check.subject.subjects import Subject
from autograder.locale.messages import Message
from autograder.locale.translations import translated
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import NamedLine, Outcome
from autograder.view import draws_here, show


def check_outcome(
    exercise: str, outcome: Outcome, *, without: tuple[str, ...] = (), given: Callable[[], object]
) -> None:
    """Print one line if the student's program has the outcome `outcome`, and raise the reason if it does not.

    Args:
        exercise: the exercise's id, which is also the name of the student's function; it takes no arguments.
        outcome: the outcome that its run must have.
        without: names that its code must not use, such as "data" or "numpy", because they would make the exercise too
            easy.
        given: the original program; its source is used to recognize an unchanged answer.

    Raises:
        NotAttempted: the program is still the original one.
        Incorrect: the program has a different outcome, or uses a name that is not allowed.
        Missing: the name `exercise` is not defined.
    """
    plan_or_compare(OutcomePlan(exercise, outcome, without, given))


@dataclass(frozen=True)
class OutcomePlan(Plan):
    """The plan of one call of `check_outcome`; its arguments are described there."""

    name: str
    outcome: Outcome
    without: tuple[str, ...]
    given: Callable[[], object]

    asks: ClassVar = "program"

    @functools.cached_property
    def original_form(self) -> str | None:
        """The normal form of the original program."""
        return normal_form(self.given)

    def compare(self, names: LearnerNames) -> None:
        """Run the student's program, and compare its outcome."""
        subject = find(names.subject, self.name)
        program = subject.program()
        if program.code == self.original_form:
            wanted = translated("your own program, with the outcome {outcome}", outcome=self.outcome)
            raise not_attempted(self.name, wanted)
        require_without(self.name, program.words, self.without, self._where_to_look(subject))
        if not program.outcome:
            raise_unfinished(self.name, program.error, line_that_ran(program))
        if program.outcome != self.outcome:
            _refuse(self.name, subject, program, self.outcome)
        show_passed(self.name, translated(", the outcome is {outcome}", outcome=self.outcome))

    def _where_to_look(self, subject: Subject) -> str:
        """Return the place to look at if the answer uses a forbidden name: its line, if the recording is here."""
        recording = subject.program_recording() if draws_here() else None
        text = translated("what else can reach the same memory")
        for number, line in AnswerLines(recording).texts.items() if recording else ():
            if any(re.search(rf"\b{word}\b", line) for word in self.without):
                return translated("line {line}: {text}; {told}", line=number, text=line, told=text)
        return text


def _refuse(exercise: str, subject: Subject, program: ProgramText, outcome: Outcome) -> NoReturn:
    recording = subject.program_recording() if draws_here() else None
    named = _line_to_look_at(recording) if recording else None
    harm = next(iter(recording.verdict.harms), None) if recording else None
    wrong = Incorrect.of(
        translated("{exercise}: a different outcome", exercise=exercise),
        saw=program.outcome + (f": {program.error.partition(' Hint: ')[0]}" if program.error else ""),
        expected=outcome,
        look_at=(describe_line(named) if named else describe_harm(harm))
        or translated("which tensor backward needs, and what changes it undetected"),
    )
    if recording is not None:
        show_first(wrong)
        refusal = translated(
            "the outcome is {found}; the task asks for {outcome}", found=program.outcome, outcome=outcome
        )
        verdict = msgspec.structs.replace(recording.verdict, refusal=refusal, named=(named,) if named else ())
        show(msgspec.structs.replace(recording, verdict=verdict))
    notify("failed", exercise, "")
    raise wrong


def _line_to_look_at(recording: Recording) -> NamedLine | None:
    """Return the line whose result is thrown away, the line that raised in forward, or the last write that changed no gradient."""
    dropped, error = AnswerLines(recording).dropped(), recording.verdict.error
    if dropped is not None:
        return dropped
    if recording.verdict.outcome == "raises-forward" and error is not None and recording.steps:
        return NamedLine(recording.steps[-1].place, Message("outcome.raises_error|this line raises the error"))
    steps = [step for step in recording.steps if step.writes]
    if recording.verdict.outcome != "correct" or not steps:
        return None
    place, backward = steps[-1].place, [visit.step for visit in recording.backward if visit.step is not None]
    if backward and steps[-1].index > max(backward):
        message = Message(
            "outcome.writes_after_backward|writes after backward has run and no longer needs the saved tensors"
        )
        return NamedLine(place, message)
    return NamedLine(place, Message("outcome.no_change|changes no saved value that backward reads after it"))
