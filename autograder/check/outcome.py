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
    """Returns nothing; prints one line where the learner's program ends as asked, and raises the reason where it does not.

    Args:
        exercise: the exercise's id, which is also the name of the learner's function; it takes no arguments.
        outcome: what its run must come to.
        without: words that its code may not contain, such as "data" or "numpy"; they would be the lazy way.
        given: the program as it was handed out; its source tells an untouched answer.

    Raises:
        NotAttempted: the program is still the one that was handed out.
        Incorrect: it comes to another outcome, or uses a word that it may not.
        Missing: nothing of that name is defined.
    """
    found = find_subject(exercise).program()
    if found.code == normal_form(given):
        raise NotAttempted(
            message(
                f"{exercise}: not attempted yet",
                saw="the program as it was handed out",
                expected=f"a program of yours whose outcome is {outcome}",
                look_at=f'the task above; hint("{exercise}") gives a first nudge',
            )
        )
    if used := [word for word in without if word in found.words]:
        raise Incorrect(
            message(
                f"{exercise}: this way is closed here",
                saw=f"the word {used[0]} in your code",
                expected=f"a program without {', '.join(without)}",
                look_at="what else reaches the same memory",
            )
        )
    if found.outcome != outcome:
        raise Incorrect(
            message(
                f"{exercise}: another outcome",
                saw=found.outcome + (f": {found.error.partition(' Hint: ')[0]}" if found.error else ""),
                expected=outcome,
                look_at="which tensor backward needs, and who changes it without its knowledge",
            )
        )
    passed(exercise, f", the outcome is {outcome}")
