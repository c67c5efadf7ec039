"""Exercises that ask for a program with a given outcome: "make it silently wrong without `.data`"."""

from __future__ import annotations

from collections.abc import Callable

from autograder.check.events import passed
from autograder.check.learner import find_subject
from autograder.check.message import Incorrect, NotAttempted, message
from autograder.check.subject.learner_code import normal_form
from autograder.tape.recording.verdict_types import Outcome


def check_outcome(
    exercise: str, outcome: Outcome, *, without: tuple[str, ...] = (), given: Callable[[], object]
) -> None:
    """Checks the outcome of the learner's program: prints one line if it is `outcome`, and raises the reason if it is not.

    Args:
        exercise: the exercise's id, which is also the name of the learner's function; it takes no arguments.
        outcome: the outcome that its run must have.
        without: words that its code must not contain, such as "data" or "numpy", because they would make it too easy.
        given: the original program; its source is used to recognize an unchanged answer.

    Raises:
        NotAttempted: the program is still the original one.
        Incorrect: it has a different outcome, or uses a word that is not allowed.
        Missing: nothing of that name is defined.
    """
    found = find_subject(exercise).program()
    if found.code == normal_form(given):
        raise NotAttempted(
            message(
                f"{exercise}: not attempted yet",
                saw="the original program",
                expected=f"your own program, with the outcome {outcome}",
                look_at=f'the task above; hint("{exercise}") gives a first hint',
            )
        )
    if used := [word for word in without if word in found.words]:
        raise Incorrect(
            message(
                f"{exercise}: this word is not allowed here",
                saw=f"the word {used[0]} in your code",
                expected=f"a program without {', '.join(without)}",
                look_at="what else can reach the same memory",
            )
        )
    if found.outcome != outcome:
        raise Incorrect(
            message(
                f"{exercise}: a different outcome",
                saw=found.outcome + (f": {found.error.partition(' Hint: ')[0]}" if found.error else ""),
                expected=outcome,
                look_at="which tensor backward needs, and what changes it undetected",
            )
        )
    passed(exercise, f", the outcome is {outcome}")
