"""A call of a check in two steps: a plan, which does not depend on an answer, and its comparison with an answer.

In a notebook, a call does both. A grader plans a test cell once and compares the plans with the answers of all students.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, TypeVar

from autograder.check.learner import LearnerNames, current_names, use_names
from autograder.check.message import Unsolved
from autograder.locale.languages import bound

if TYPE_CHECKING:
    from autograder.check.subject.call_report import Call

Program = TypeVar("Program", bound=Callable[[], Any])


class Unplannable(Exception):
    """A check needs a student's answer before the comparison, so its cell has to run for each student."""


class Plan(ABC):
    """A check's call in a test cell: the questions to ask, and the comparison with the answers."""

    name: str  # the exercise, or the student's variable that contains a prediction
    makes_extra_call = False  # whether `compare` may make a call that is not in `calls`
    # the kind of object that `compare` looks up by this name: a function or class to call, a program to run, or a
    # value; None if it does not look up anything
    asks: ClassVar[Literal["subject", "program", "value"] | None] = None

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of the subject that `compare` makes for a right answer, in order; it stops at a wrong one.

        The call that measures memory is not included: it keeps all allocated memory alive, and only a right answer needs it.
        """
        return ()

    def prepare(self) -> None:
        """Compute all cached properties now, which do not depend on an answer."""
        for kind in type(self).__mro__:
            for name, attribute in vars(kind).items():
                if isinstance(attribute, functools.cached_property):
                    getattr(self, name)

    @abstractmethod
    def compare(self, names: LearnerNames) -> None:
        """Print one line if the answer is right, and raise the reason if it is not.

        The result depends only on the plan and the answer: a plan can be compared with many answers, and repeatedly with the
        same one.

        Raises:
            Unsolved: the answer does not pass; the message gives the reason.
        """


class Plans(list[Plan]):
    """The plans of one test cell."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[int] = []  # the line of the cell, 1-based, at which each check is called


_plans: ContextVar[Plans | None] = ContextVar("plans", default=None)


@contextlib.contextmanager
def planning() -> Iterator[Plans]:
    """Inside the block, each check appends its prepared plan to the list and returns as if it had passed.

    Raises:
        Unplannable: a check, or the code between checks, needs an answer.
        BrokenExercise: the exercise's own program raises an error.
    """
    with bound(_plans, Plans()) as plans, use_names(_NoNames()):
        yield plans


class _NoNames:
    """The lookup of student names during planning, which always raises Unplannable."""

    def subject(self, name: str) -> NoReturn:
        raise Unplannable(f"{name} is looked up before there is an answer")

    value = subject


def plan_or_compare(plan: Plan) -> None:
    """Append a plan inside `planning`; otherwise compare it with the current names."""
    plans = _plans.get()
    if plans is None:
        try:
            plan.compare(current_names())
        except Unsolved as wrong:
            from autograder.check.shown_message import is_learners_notebook, show_first

            if is_learners_notebook() and not wrong.printed:
                show_first(wrong)
            raise
        return
    try:
        plan.prepare()
    except NameError as error:
        require_known_names(type(error).__name__, str(error))
        raise
    plans.append(plan)
    plans.lines.append(_line_of_cell())


def _line_of_cell() -> int:
    """Return the line of the running cell; 0 outside of a cell."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return frame.f_lineno if frame is not None else 0


def plan_or_decorate(plan_of: Callable[[Program], Plan], program: Program | None) -> Any:
    """Plan or compare a program; without one, return a decorator that does so and returns the function unchanged."""

    def decorate(program: Program) -> Program:
        plan_or_compare(plan_of(program))
        return program

    if program is None:
        return decorate
    plan_or_compare(plan_of(program))
    return None


def require_known_names(error: str, sentence: str) -> None:
    """Raise Unplannable if a program ended with a NameError during planning: a student's answer may define that name."""
    if error == "NameError" and _plans.get() is not None:
        raise Unplannable(sentence)
