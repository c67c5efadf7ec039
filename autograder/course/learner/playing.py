"""`play("clear_after_use")`: open a program of a lesson in the playground."""

from __future__ import annotations

from autograder.errors import InputError
from autograder.graded import is_graded
from autograder.locale.translations import retold


def play(name: str = "") -> None:
    """Show a program as cards that can be moved, switched and edited; the verdict and the picture are updated immediately.

    While a submission is graded, nothing is shown.

    Args:
        name: the id of an exercise or a prediction, as in its check cell.
    """
    if is_graded():
        return
    # Imported here because the playground uses the search for fixes, which must not be importable while a submission is graded.
    from autograder.check.playground.playground import Playground, open_playground
    from autograder.course.learner.exercise_programs import find_program

    try:
        program = find_program(name)
    except InputError as error:
        print(retold(str(error)))
        return
    open_playground(Playground(program))
