"""`play("clear_after_use")`: opens a program of a lesson to play with."""

from __future__ import annotations

from autograder.errors import InputError
from autograder.graded import is_graded
from autograder.locale.translations import retold


def play(name: str = "") -> None:
    """Shows a program as cards that can be moved, switched and edited; the verdict and the picture follow at once.

    Shows nothing while a hand-in is graded: nobody is there to play.

    Args:
        name: the id of an exercise or a prediction, as in its check cell.
    """
    if is_graded():
        return
    # Not at the top: a line's other forms come from the search for repairs, which no hand-in may import while it is graded.
    from autograder.course.learner.exercise_programs import find_program
    from autograder.play.playground import Playground, open_playground

    try:
        program = find_program(name)
    except InputError as error:
        print(retold(str(error)))
        return
    open_playground(Playground(program))
