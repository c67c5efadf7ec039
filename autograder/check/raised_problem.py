"""Messages for an exception in an answer or its backward: the meaning, the expected behavior, and where to look."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

from autograder.check.attempt_picture import RecordedTrial
from autograder.check.message import Incorrect, Unfinished
from autograder.check.subject.call_report import CallProblem, ProgramText
from autograder.locale.translations import translatable, translated


@dataclass(frozen=True)
class ErrorMeaning:
    """The meaning of an exception; `look_at` is set if the line that raised is not the place to look at."""

    verdict: str
    expected: str
    look_at: str = ""


REFUSED = ErrorMeaning(
    translatable("backward() raises: a saved tensor was modified"),
    translatable("no saved tensor modified before backward"),
    translatable("the write that comes after the operation that saved it"),
)
NO_GRAD_FN = ErrorMeaning(
    translatable("backward has nothing to start from"),
    translatable("a result that is computed, with recording on, from a leaf that requires grad"),
)
BY_PHRASE = {
    "modified by an inplace operation": REFUSED,
    "leaf Variable": ErrorMeaning(
        translatable("a leaf is modified in place"), translatable("a leaf that is not modified while autograd records")
    ),
    "does not have a grad_fn": NO_GRAD_FN,
    "returns multiple views": ErrorMeaning(
        translatable("one of several views is modified in place"),
        translatable("a write to the base, or to a view that was created on its own"),
    ),
    "is not an nn.Module": ErrorMeaning(
        translatable("the class is not a module"),
        translatable("a class that is a module: class Name(nn.Module)"),
        translatable("the line that begins with class"),
    ),
    "_forward_unimplemented": ErrorMeaning(
        translatable("the module has no forward"),
        translatable("a method with the name forward"),
        translatable("the names of the methods, letter by letter"),
    ),
}
"""A part of PyTorch's message → its meaning."""

USED_AGAIN = ErrorMeaning(
    translatable("a graph is used again after backward has freed it"),
    translatable("a graph whose saved tensors are still there"),
)
CALLERS_BACKWARD = replace(
    USED_AGAIN,
    look_at=translatable("a backward inside your own code: the caller runs backward from what the function returns"),
)
NO_GRAD = ErrorMeaning(
    translatable("a .grad is None"),
    translatable("the .grad of a leaf that backward has reached; the result of an operation has none"),
)
OTHER_ARGUMENTS = ErrorMeaning(
    translatable("its arguments differ from the original's"),
    translatable("a function that can be called as the original is called"),
    translatable("the line that begins with def"),
)
IN_BACKWARD = ErrorMeaning(
    translatable("backward raises"),
    translatable("a backward that runs"),
    translatable("how the returned values depend on the inputs"),
)
OWN_CODE = ErrorMeaning(
    translatable("your own code raises an error"), translatable("a function that runs on these inputs")
)

CAUSED_ELSEWHERE = (REFUSED, NO_GRAD_FN, NO_GRAD, IN_BACKWARD)  # meanings whose cause is seldom the line that raised


def raise_problem(exercise: str, problem: CallProblem, attempt: RecordedTrial) -> NoReturn:
    """Raise the exception of an answer as a verdict; `attempt` names the line that is the cause, if it can."""
    where = line_that_ran(problem)
    if problem.type in ("KeyboardInterrupt", "TimeUp"):
        by_hand = translated("KeyboardInterrupt: stopped from outside")
        raise_unfinished(exercise, problem.message if problem.type == "TimeUp" else by_hand, where)
    meaning = meaning_of(problem)
    named = (attempt.describe_cause() if meaning in CAUSED_ELSEWHERE else "") or attempt.name_raised(problem)
    look_at = named or (translated(meaning.look_at) if meaning.look_at else where)
    text = problem.message.partition(" Hint: ")[0]
    raise Incorrect.of(
        f"{exercise}: {translated(meaning.verdict)}",
        saw=f"{problem.type}: {text}",
        expected=translated(meaning.expected),
        look_at=look_at,
        judges_gradients=True,
    )


def meaning_of(problem: CallProblem) -> ErrorMeaning:
    """Return the meaning of an exception."""
    advice = next((BY_PHRASE[phrase] for phrase in BY_PHRASE if phrase in problem.message), None)
    if advice:
        return advice
    if "backward through the graph a second time" in problem.message:
        return CALLERS_BACKWARD if problem.phase == "backward" else USED_AGAIN
    if "NoneType" in problem.message and ".grad" in problem.text:
        return NO_GRAD
    if problem.phase == "backward":
        return IN_BACKWARD
    # If no line of the answer ran, the call itself failed.
    called_otherwise = problem.type == "TypeError" and not problem.line and "argument" in problem.message
    return OTHER_ARGUMENTS if called_otherwise else OWN_CODE


def line_that_ran(stopped: CallProblem | ProgramText) -> str:
    """Return the line of the answer that raised an error or was stopped, as the message shows it."""
    if not stopped.line:
        return translated("the function that you defined")
    return translated("line {line}: {text}", line=stopped.line, text=stopped.text.strip())


def raise_unfinished(exercise: str, saw: str, where: str) -> NoReturn:
    """Raise the verdict on an answer that was stopped; `saw` names the time limit."""
    raise Unfinished.of(
        translated("{exercise}: your own code did not finish", exercise=exercise),
        saw=saw,
        expected=translated("a function that returns"),
        look_at=where,
    )
